//! A decoded message is equal after it was encoded and decoded again. The bytes may differ, because a peer of another
//! version sends more or fewer fields.
#![no_main]

use outlive_holder::wire::{ToHolder, ToServer};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(message) = ToHolder::decode(data) {
        assert_eq!(ToHolder::decode(&message.encode()), Some(message));
    }
    if let Some(message) = ToServer::decode(data) {
        assert_eq!(ToServer::decode(&message.encode()), Some(message));
    }
});
