// SPDX-License-Identifier: Apache-2.0
//! LevelDB, a store with a log-structured tree: fills a database, then reads and overwrites keys of which few are popular.
//! Half-way others become popular. A tree's levels are merged in the background, and blocks are cached. Compiled by
//! `record` with plain rustc, and linked with LevelDB.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;

#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_options_create() -> *mut c_void;
    fn leveldb_options_set_create_if_missing(options: *mut c_void, on: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: *mut c_void, bytes: usize);
    fn leveldb_options_set_cache(options: *mut c_void, cache: *mut c_void);
    fn leveldb_options_set_compression(options: *mut c_void, kind: c_int);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut c_void;
    fn leveldb_open(
        options: *const c_void,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn leveldb_close(db: *mut c_void);
    fn leveldb_readoptions_create() -> *mut c_void;
    fn leveldb_writeoptions_create() -> *mut c_void;
    fn leveldb_put(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        db: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn leveldb_free(memory: *mut c_void);
}

const KEYS: u64 = 12_000;
const REQUESTS: u64 = 16_000;
const VALUE: [u8; 256] = [b'v'; 256];
/// One request in so many writes.
const WRITES: u64 = 10;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A key, spread over the key space.
fn key(rank: u64) -> Vec<u8> {
    format!("key{:08}", rank * 7919 % KEYS).into_bytes()
}

fn main() {
    let folder = std::env::args().nth(1).expect("usage: lsm FOLDER");
    let name = CString::new(folder).expect("a path");
    let mut error = null_mut();
    // JUSTIFICATION: LevelDB has a C interface only.
    // SAFETY: the signatures are those of leveldb/c.h, 1.23; every pointer comes from it or outlives the call.
    unsafe {
        let options = leveldb_options_create();
        leveldb_options_set_create_if_missing(options, 1);
        leveldb_options_set_write_buffer_size(options, 512 << 10);
        leveldb_options_set_cache(options, leveldb_cache_create_lru(2 << 20));
        leveldb_options_set_compression(options, 0);
        let db = leveldb_open(options, name.as_ptr(), &mut error);
        assert!(error.is_null() && !db.is_null(), "cannot open the database");
        let (reading, writing) = (leveldb_readoptions_create(), leveldb_writeoptions_create());
        let put = |key: &[u8], error: &mut *mut c_char| {
            leveldb_put(db, writing, key.as_ptr(), key.len(), VALUE.as_ptr(), VALUE.len(), error);
        };
        for rank in 0..KEYS {
            put(&key(rank), &mut error);
        }
        let mut state = 88_172_645_463_325_252;
        let mut found = 0;
        for request in 0..REQUESTS {
            // Half of the requests go to 1/32 of the keys.
            let of = if random(&mut state) % 2 == 0 { KEYS } else { KEYS / 32 };
            let moved = if request < REQUESTS / 2 { 0 } else { KEYS / 2 };
            let key = key((random(&mut state) % of + moved) % KEYS);
            if random(&mut state) % WRITES == 0 {
                put(&key, &mut error);
                continue;
            }
            let mut bytes = 0;
            let value = leveldb_get(db, reading, key.as_ptr(), key.len(), &mut bytes, &mut error);
            found += usize::from(bytes == VALUE.len());
            leveldb_free(value);
        }
        assert!(error.is_null(), "a request failed");
        leveldb_close(db);
        println!("{found} of {REQUESTS} found");
    }
}
