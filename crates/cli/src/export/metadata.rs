//! What a table says of itself, beside its rows.

#[cfg(feature = "tables")]
use arrow_schema::Schema;
use blockmill_block::{BlockHash, Network};

/// Keys and values. CSV and lines of JSON have no room for them.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "tables"), expect(dead_code, reason = "text has no room for it"))]
pub(crate) struct Metadata(Vec<(&'static str, String)>);

#[cfg(feature = "tables")]
impl Metadata {
    /// The pairs, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, text)| (*key, &**text))
    }

    /// A schema that has the pairs, too.
    pub(crate) fn of_schema(&self, schema: Schema) -> Schema {
        let pairs = self.iter().map(|(key, text)| (key.to_owned(), text.to_owned()));
        schema.with_metadata(pairs.collect())
    }
}

/// Where the rows of an export come from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) network: Network,
    /// The data directory, the snapshot or the block files as they were given, one a line.
    pub(crate) source: String,
}

impl Origin {
    /// What a table of blocks says; `hash` is that of the last one.
    pub(crate) fn of_blocks(&self, from: u32, to: u32, hash: BlockHash) -> Metadata {
        self.metadata(&[("from", Some(from)), ("height", Some(to))], hash)
    }

    /// What a table of a set says. The height of a snapshot is not known.
    pub(crate) fn of_set(&self, height: Option<u32>, hash: BlockHash) -> Metadata {
        self.metadata(&[("height", height)], hash)
    }

    fn metadata(&self, heights: &[(&'static str, Option<u32>)], hash: BlockHash) -> Metadata {
        let mut pairs = vec![("network", self.network.to_string())];
        for (key, height) in heights {
            pairs.extend(height.map(|height| (*key, height.to_string())));
        }
        pairs.push(("hash", hash.to_string()));
        pairs.push(("version", env!("CARGO_PKG_VERSION").to_owned()));
        pairs.push(("source", self.source.clone()));
        Metadata(pairs)
    }
}
