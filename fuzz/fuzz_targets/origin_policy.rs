#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| outlive::fuzzing::origin_policy(data));
