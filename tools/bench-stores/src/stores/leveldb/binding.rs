//! The part of LevelDB's C interface (`leveldb/c.h`) that the store needs, behind safe types. All
//! unsafe code of the store is here.

use blockmill_coins::StoreError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// An object of LevelDB, which only LevelDB looks into. Each function below takes the one kind that
/// its name says.
type Object = *mut c_void;

/// `leveldb_no_compression`.
const NO_COMPRESSION: c_int = 0;

#[expect(unsafe_code, reason = "declarations of leveldb/c.h")]
// SAFETY: these are the signatures of the header. The safe ones make a new object or free nothing.
#[link(name = "leveldb")]
unsafe extern "C" {
    safe fn leveldb_options_create() -> Object;
    safe fn leveldb_readoptions_create() -> Object;
    safe fn leveldb_writeoptions_create() -> Object;
    safe fn leveldb_cache_create_lru(capacity: usize) -> Object;
    safe fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Object;
    safe fn leveldb_writebatch_create() -> Object;

    fn leveldb_options_set_create_if_missing(options: Object, value: u8);
    fn leveldb_options_set_paranoid_checks(options: Object, value: u8);
    fn leveldb_options_set_compression(options: Object, value: c_int);
    fn leveldb_options_set_write_buffer_size(options: Object, bytes: usize);
    fn leveldb_options_set_max_file_size(options: Object, bytes: usize);
    fn leveldb_options_set_cache(options: Object, cache: Object);
    fn leveldb_options_set_filter_policy(options: Object, filter: Object);
    fn leveldb_readoptions_set_verify_checksums(options: Object, value: u8);
    fn leveldb_readoptions_set_fill_cache(options: Object, value: u8);
    fn leveldb_writeoptions_set_sync(options: Object, value: u8);

    fn leveldb_options_destroy(options: Object);
    fn leveldb_readoptions_destroy(options: Object);
    fn leveldb_writeoptions_destroy(options: Object);
    fn leveldb_cache_destroy(cache: Object);
    fn leveldb_filterpolicy_destroy(filter: Object);
    fn leveldb_free(memory: *mut c_char);

    fn leveldb_open(options: Object, name: *const c_char, error: *mut *mut c_char) -> Object;
    fn leveldb_close(database: Object);
    fn leveldb_get(
        database: Object,
        options: Object,
        key: *const u8,
        key_length: usize,
        value_length: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn leveldb_write(database: Object, options: Object, batch: Object, error: *mut *mut c_char);

    fn leveldb_writebatch_put(batch: Object, key: *const u8, key_length: usize, value: *const u8, value_length: usize);
    fn leveldb_writebatch_delete(batch: Object, key: *const u8, key_length: usize);
    fn leveldb_writebatch_destroy(batch: Object);

    fn leveldb_create_iterator(database: Object, options: Object) -> Object;
    fn leveldb_iter_seek_to_first(iterator: Object);
    fn leveldb_iter_valid(iterator: Object) -> u8;
    fn leveldb_iter_next(iterator: Object);
    fn leveldb_iter_key(iterator: Object, length: *mut usize) -> *const u8;
    fn leveldb_iter_value(iterator: Object, length: *mut usize) -> *const u8;
    fn leveldb_iter_get_error(iterator: Object, error: *mut *mut c_char);
    fn leveldb_iter_destroy(iterator: Object);
}

/// How a database is opened. The filter has ten bits a key, values are not compressed, checksums
/// are compared wherever LevelDB can.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) cache_bytes: usize,
    pub(super) write_buffer_bytes: usize,
    pub(super) file_bytes_max: usize,
    pub(super) filter_bits: c_int,
}

/// An open database. Many threads may use it at once.
pub(super) struct Database {
    database: NonNull<c_void>,
    /// Freed with the database, after it.
    options: Options,
}

/// The objects that a database refers to.
struct Options {
    cache: Object,
    filter: Object,
    open: Object,
    get: Object,
    scan: Object,
    sync: Object,
}

#[expect(unsafe_code, reason = "an object of C++ that many threads use")]
// SAFETY: `leveldb/c.h` and `leveldb/db.h` say that a database needs no synchronization from
// outside; it is tied to no thread. The options are not changed once they are made.
unsafe impl Send for Database {}

#[expect(unsafe_code, reason = "an object of C++ that many threads use")]
// SAFETY: as for Send.
unsafe impl Sync for Database {}

impl Options {
    fn new(settings: Settings) -> Self {
        let options = Self {
            cache: leveldb_cache_create_lru(settings.cache_bytes),
            filter: leveldb_filterpolicy_create_bloom(settings.filter_bits),
            open: leveldb_options_create(),
            get: leveldb_readoptions_create(),
            scan: leveldb_readoptions_create(),
            sync: leveldb_writeoptions_create(),
        };
        #[expect(unsafe_code, reason = "calls of LevelDB")]
        // SAFETY: all objects were just made and live; LevelDB has no other limits on the values.
        unsafe {
            leveldb_options_set_create_if_missing(options.open, 1);
            leveldb_options_set_paranoid_checks(options.open, 1);
            leveldb_options_set_compression(options.open, NO_COMPRESSION);
            leveldb_options_set_write_buffer_size(options.open, settings.write_buffer_bytes);
            leveldb_options_set_max_file_size(options.open, settings.file_bytes_max);
            leveldb_options_set_cache(options.open, options.cache);
            leveldb_options_set_filter_policy(options.open, options.filter);
            leveldb_readoptions_set_verify_checksums(options.get, 1);
            leveldb_readoptions_set_verify_checksums(options.scan, 1);
            leveldb_readoptions_set_fill_cache(options.scan, 0);
            leveldb_writeoptions_set_sync(options.sync, 1);
        }
        options
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "calls of LevelDB")]
        // SAFETY: each object was made in `new` and is freed only here. A database that uses them
        // is closed before: its own drop runs first.
        unsafe {
            leveldb_writeoptions_destroy(self.sync);
            leveldb_readoptions_destroy(self.scan);
            leveldb_readoptions_destroy(self.get);
            leveldb_options_destroy(self.open);
            leveldb_filterpolicy_destroy(self.filter);
            leveldb_cache_destroy(self.cache);
        }
    }
}

/// Calls LevelDB with a pointer for its error.
fn checked<R>(call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R, StoreError> {
    let mut error = ptr::null_mut();
    let result = call(&raw mut error);
    if error.is_null() {
        return Ok(result);
    }
    #[expect(
        unsafe_code,
        reason = "LevelDB hands out its message, to be freed by its own function"
    )]
    // SAFETY: LevelDB leaves the pointer alone or sets it to a string with its end, which is ours.
    // It is copied, then freed once.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        leveldb_free(error);
        text
    };
    Err(StoreError::Backend(text))
}

impl Database {
    /// Opens a database in a directory, or makes it.
    pub(super) fn open(directory: &Path, settings: Settings) -> Result<Self, StoreError> {
        let name = CString::new(directory.as_os_str().as_bytes()).map_err(crate::stores::common::backend)?;
        let options = Options::new(settings);
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: options and name live; cache and filter in them live as long as the database,
        // which is closed before they are freed.
        let database = checked(|error| unsafe { leveldb_open(options.open, name.as_ptr(), error) })?;
        let database = NonNull::new(database).ok_or_else(|| crate::stores::common::backend("no database"))?;
        Ok(Self { database, options })
    }

    /// Hands the value of a key to `read`, if there is one.
    pub(super) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        let mut length = 0;
        let (database, options) = (self.database.as_ptr(), self.options.get);
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: the database is open; key and length are where the pointers say.
        let value = checked(|error| unsafe {
            leveldb_get(database, options, key.as_ptr(), key.len(), &raw mut length, error)
        })?;
        if value.is_null() {
            return Ok(None);
        }
        #[expect(unsafe_code, reason = "LevelDB hands out a value, to be freed by its own function")]
        // SAFETY: the value is ours, has `length` bytes, and is freed once, after its last use.
        let result = unsafe {
            let result = read(slice::from_raw_parts(value.cast(), length));
            leveldb_free(value);
            result
        };
        Ok(Some(result))
    }

    /// Writes a batch durably, all of it or nothing.
    pub(super) fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let (database, options) = (self.database.as_ptr(), self.options.sync);
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: the database is open, the batch lives; LevelDB only reads it.
        checked(|error| unsafe { leveldb_write(database, options, batch.0, error) })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: the database is open, and nothing uses it any more: iterators share its
        // ownership.
        unsafe {
            leveldb_close(self.database.as_ptr());
        }
    }
}

/// Changes that are written together.
pub(super) struct Batch(Object);

impl Batch {
    pub(super) fn new() -> Self {
        Self(leveldb_writebatch_create())
    }

    /// Adds a value, or removes it.
    pub(super) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        #[expect(unsafe_code, reason = "calls of LevelDB")]
        // SAFETY: the batch lives; LevelDB copies key and value, which are where the pointers say.
        unsafe {
            match value {
                Some(value) => leveldb_writebatch_put(self.0, key.as_ptr(), key.len(), value.as_ptr(), value.len()),
                None => leveldb_writebatch_delete(self.0, key.as_ptr(), key.len()),
            }
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: it was made in `new` and is freed only here.
        unsafe {
            leveldb_writebatch_destroy(self.0);
        }
    }
}

/// All entries at the moment when it was made, in the order of their keys.
pub(super) struct Entries {
    iterator: Object,
    /// Kept open for the iterator.
    _database: Arc<Database>,
}

impl Entries {
    pub(super) fn new(database: &Arc<Database>) -> Self {
        #[expect(unsafe_code, reason = "calls of LevelDB")]
        // SAFETY: the database is open, and stays so until the iterator is gone.
        let iterator = unsafe {
            let iterator = leveldb_create_iterator(database.database.as_ptr(), database.options.scan);
            leveldb_iter_seek_to_first(iterator);
            iterator
        };
        Self {
            iterator,
            _database: Arc::clone(database),
        }
    }

    /// Hands the next key and value to `read`; none at the end.
    pub(super) fn next<R>(&mut self, read: impl FnOnce(&[u8], &[u8]) -> R) -> Option<Result<R, StoreError>> {
        let (mut key_length, mut value_length) = (0, 0);
        #[expect(unsafe_code, reason = "calls of LevelDB")]
        // SAFETY: the iterator lives. Key and value are asked for only while it is valid, and are
        // valid until it moves, which it does after `read`.
        unsafe {
            if leveldb_iter_valid(self.iterator) == 0 {
                let end = checked(|error| leveldb_iter_get_error(self.iterator, error));
                return end.err().map(Err);
            }
            let key = leveldb_iter_key(self.iterator, &raw mut key_length);
            let value = leveldb_iter_value(self.iterator, &raw mut value_length);
            let result = read(
                slice::from_raw_parts(key, key_length),
                slice::from_raw_parts(value, value_length),
            );
            leveldb_iter_next(self.iterator);
            Some(Ok(result))
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a call of LevelDB")]
        // SAFETY: it was made in `new` and is freed only here, before its database can close.
        unsafe {
            leveldb_iter_destroy(self.iterator);
        }
    }
}
