//! Any bytes as a safetensors file: no panic, nothing read outside, and never laxer than the reference implementation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nowcast::checkpoint::Checkpoint;
use safetensors::SafeTensors;

fuzz_target!(|bytes: &[u8]| {
    let Ok(checkpoint) = Checkpoint::from_bytes("fuzz", bytes.to_vec()) else { return };
    let reference = SafeTensors::deserialize(bytes).expect("the reference reads what we read");
    assert_eq!(checkpoint.names().len(), reference.len());
    for name in checkpoint.names() {
        let found = checkpoint.tensor(name).expect("a name that is listed");
        let expected = reference.tensor(name).expect("the same names");
        assert_eq!((found.shape, found.dtype, found.bytes), (expected.shape(), expected.dtype(), expected.data()));
        let values = found.to_f32();
        assert_eq!(values.is_ok(), found.is_float());
        if let Ok(values) = values {
            assert_eq!(values.len(), found.elements());
            // A tensor of no elements may have any number of empty rows.
            let mut row = vec![0.0; found.row_length().min(values.len())];
            if !row.is_empty() {
                found.row(found.rows() - 1, &mut row).expect("floats");
            }
        }
        checkpoint.release(name);
    }
    checkpoint.fingerprint();
});
