#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| outlive::fuzzing::cloudflare_inputs(data));
