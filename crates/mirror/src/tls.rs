//! Encrypted connections, by the library that `psql` uses, with its meanings of `sslmode`.

use crate::error::MirrorError;
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVerifyMode, SslVersion};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509Ref, X509StoreContextRef, X509VerifyResult};
use postgres_openssl::{MakeTlsConnector, set_postgresql_alpn};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// OpenSSL's code for a certificate that lacks the address it is verified for.
const IP_ADDRESS_MISMATCH: i32 = 64;

/// Where systems have the authorities that they trust: Debian, Fedora, SUSE, macOS.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What a server must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: the connection is encrypted, against passive readers only.
    Nothing,
    /// That an authority has signed its certificate.
    Authority,
    /// That, and that the certificate has its name.
    AuthorityAndName,
}

/// The authorities whose signatures count.
#[derive(Debug)]
pub(crate) enum Roots {
    /// Those that the system trusts.
    System,
    /// The certificates of a file in PEM.
    File(PathBuf),
}

/// # Errors
/// That no certificates of authorities can be read.
pub(crate) fn connector(verify: Verify, roots: &Roots) -> Result<MakeTlsConnector, MirrorError> {
    let failed = |error: ErrorStack| MirrorError::Usage(format!("TLS: {error}"));
    let mut builder = SslConnector::builder(SslMethod::tls()).map_err(failed)?;
    builder
        .set_min_proto_version(Some(SslVersion::TLS1_2))
        .and_then(|()| set_postgresql_alpn(&mut builder))
        .map_err(failed)?;
    match verify {
        Verify::Nothing => builder.set_verify(SslVerifyMode::NONE),
        _ => trust(&mut builder, roots)?,
    }
    let mut connector = MakeTlsConnector::new(builder.build());
    let checks_name = verify == Verify::AuthorityAndName;
    connector.set_callback(move |configuration, host| {
        configuration.set_verify_hostname(checks_name);
        if checks_name && host.parse::<IpAddr>().is_ok() {
            let host = host.to_owned();
            configuration.set_verify_callback(SslVerifyMode::PEER, move |is_good, chain| {
                is_good || is_named_by_address(chain, &host)
            });
        }
        Ok(())
    });
    Ok(connector)
}

fn trust(builder: &mut SslConnectorBuilder, roots: &Roots) -> Result<(), MirrorError> {
    let (place, read) = match roots {
        Roots::File(path) => {
            // Without the authorities of the system, which a new builder has.
            let store = X509StoreBuilder::new().map(|store| builder.set_cert_store(store.build()));
            (
                path.display().to_string(),
                store.and_then(|()| builder.set_ca_file(path)),
            )
        }
        Roots::System => {
            // Those of the library are there already; one that was built elsewhere has none.
            let file = SYSTEM_ROOTS.iter().find(|file| Path::new(file).exists());
            let read = file.map_or(Ok(()), |file| builder.set_ca_file(file));
            ("the system".to_owned(), read)
        }
    };
    read.map_err(|error| {
        let why = error
            .errors()
            .first()
            .and_then(|error| error.reason())
            .unwrap_or("unreadable");
        MirrorError::Usage(format!(
            "{place} has no certificate of an authority ({why}); sslrootcert=FILE names one"
        ))
    })
}

/// Whether the server's certificate names an address as text. OpenSSL accepts an `iPAddress` only;
/// libpq also a `dNSName`, and the common name where there is no `iPAddress`.
fn is_named_by_address(chain: &mut X509StoreContextRef, address: &str) -> bool {
    let is_named = chain.error().as_raw() == IP_ADDRESS_MISMATCH
        && chain
            .current_cert()
            .is_some_and(|certificate| names(certificate, address));
    if is_named {
        chain.set_error(X509VerifyResult::OK);
    }
    is_named
}

fn names(certificate: &X509Ref, address: &str) -> bool {
    let alternatives = certificate.subject_alt_names();
    let mut has_address = false;
    for name in alternatives.iter().flatten() {
        if name.dnsname() == Some(address) {
            return true;
        }
        has_address |= name.ipaddress().is_some();
    }
    let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).next();
    !has_address && common.is_some_and(|name| name.data().as_slice() == address.as_bytes())
}
