//! What is understood can be said again, and then means the same. (Not byte for byte: a peer of another version sends
//! more or fewer fields.)
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
