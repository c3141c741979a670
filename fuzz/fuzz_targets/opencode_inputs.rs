#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| outlive::fuzzing::opencode_inputs(data));
