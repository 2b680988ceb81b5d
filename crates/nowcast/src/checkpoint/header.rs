//! The safetensors header: read, bounded and checked before a single byte of tensor data is trusted.
//!
//! Format: 8 bytes little-endian length, that many bytes of JSON, then the data; see
//! <https://huggingface.co/docs/safetensors>. The checks of the `safetensors` crate hold here too (a test compares
//! the verdicts), and on top: no name twice, bounded ranks and names, no sum that overflows, messages with numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use safetensors::Dtype;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Length of the header, as the format bounds it.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Bounds what a header can make us allocate: a name, a rank and a number of tensors no model comes near.
const MAX_NAME_BYTES: usize = 512;
const MAX_RANK: usize = 16;
const MAX_TENSORS: usize = 1 << 16;

/// Where one tensor lies in its file, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Bytes from the start of the file.
    pub(super) bytes: Range<usize>,
}

/// The tensors of one file by name, and the length of the header with its prefix.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) length: usize,
}

/// Reads and checks the header of a whole safetensors file. The error is the tail of a sentence about the file.
pub(super) fn parse(file: &[u8]) -> Result<Header, String> {
    let Some((prefix, rest)) = file.split_first_chunk::<8>() else {
        return Err(foreign(file).unwrap_or_else(|| match file.len() {
            0 => "is empty: download it again".into(),
            length => format!("has only {length} bytes, too few for a safetensors file: download it again"),
        }));
    };
    let declared = u64::from_le_bytes(*prefix);
    if declared > MAX_HEADER_BYTES {
        return Err(foreign(file).unwrap_or_else(|| {
            format!("is not a safetensors file: its first 8 bytes announce a header of {declared} bytes (allowed: {MAX_HEADER_BYTES})")
        }));
    }
    // Fits: at most 100 million.
    let length = declared as usize;
    let Some(json) = rest.get(..length) else {
        return Err(foreign(file).unwrap_or_else(|| {
            format!("is truncated: its header needs {declared} bytes, {} are there; download it again", rest.len())
        }));
    };
    if json.first() != Some(&b'{') {
        return Err(foreign(file).unwrap_or_else(|| "is not a safetensors file: its header is not JSON".into()));
    }
    let raw: RawHeader = serde_json::from_slice(json).map_err(|error| format!("has a damaged header: {error}"))?;
    let entries = place(raw, rest.len() - length, 8 + length)?;
    Ok(Header { entries, length: 8 + length })
}

/// Turns declared offsets into checked ranges: sizes match shapes, and the data is covered without gap or overlap.
fn place(raw: RawHeader, data_length: usize, data_start: usize) -> Result<BTreeMap<String, Entry>, String> {
    let mut tensors: Vec<_> = raw.tensors.into_iter().collect();
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut position = 0_u64;
    let mut entries = BTreeMap::new();
    for (name, RawTensor { dtype, shape: Shape(shape), data_offsets: (start, end) }) in tensors {
        let bits = shape.iter().try_fold(dtype.bitsize() as u64, |product, &dimension| product.checked_mul(dimension));
        let Some(size) = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8) else {
            return Err(format!("is damaged: tensor {name:?} has the impossible shape {shape:?} of {dtype}"));
        };
        if start > end || end - start != size {
            return Err(format!(
                "is damaged: tensor {name:?} of shape {shape:?} in {dtype} takes {size} bytes, but its offsets are {start} to {end}"
            ));
        }
        if start != position {
            let fault = if start < position { "overlaps the one before" } else { "leaves a gap" };
            return Err(format!(
                "is damaged: tensor {name:?} starts at byte {start} of the data and {fault} (expected {position})"
            ));
        }
        position = end;
        if position > data_length as u64 {
            return Err(format!(
                "is truncated: tensor {name:?} ends at byte {end} of the data, {data_length} bytes are there; download it again"
            ));
        }
        // All of these are at most `data_length`, or factors of it, unless the tensor is empty.
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<_, _>>();
        let shape = shape.map_err(|_| format!("is damaged: tensor {name:?} has a dimension beyond this machine"))?;
        entries.insert(name, Entry { dtype, shape, bytes: data_start + start as usize..data_start + end as usize });
    }
    if position != data_length as u64 {
        return Err(format!(
            "is damaged: its tensors take {position} bytes, but {data_length} bytes of data are there; download it again"
        ));
    }
    Ok(entries)
}

/// What a file that is no safetensors file is, if its first bytes tell.
fn foreign(file: &[u8]) -> Option<String> {
    let start = &file[..file.len().min(64)];
    let text = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
    let advice = if text.starts_with("version https://git-lfs") {
        "is a git-lfs pointer, not the weights: run `git lfs pull` or download the file itself"
    } else if text.starts_with("<!doctype") || text.starts_with("<html") || text.starts_with("<?xml") {
        "is a web page, not the weights: download the file itself"
    } else if start.starts_with(b"PK\x03\x04") || start.starts_with(b"\x80\x02") {
        "is a PyTorch pickle: convert it with safetensors.torch.save_file"
    } else if start.starts_with(b"GGUF") {
        "is a GGUF file: only safetensors are read"
    } else if text.starts_with('{') {
        "is JSON text, not the weights: download the file itself"
    } else {
        return None;
    };
    Some(advice.into())
}

struct RawHeader {
    tensors: BTreeMap<String, RawTensor>,
}

#[derive(serde::Deserialize)]
struct RawTensor {
    dtype: Dtype,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = RawHeader;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object of tensors by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut tensors = BTreeMap::new();
                let mut metadata_seen = false;
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        if std::mem::replace(&mut metadata_seen, true) {
                            return Err(A::Error::custom("__metadata__ appears twice"));
                        }
                        map.next_value::<Option<StringMap>>()?;
                        continue;
                    }
                    if name.len() > MAX_NAME_BYTES {
                        return Err(A::Error::custom(format!(
                            "a tensor name has {} bytes (allowed: {MAX_NAME_BYTES})",
                            name.len()
                        )));
                    }
                    if tensors.len() == MAX_TENSORS {
                        return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                    let tensor =
                        map.next_value().map_err(|error| A::Error::custom(format!("tensor {name:?}: {error}")))?;
                    if tensors.contains_key(&name) {
                        return Err(A::Error::custom(format!("tensor {name:?} appears twice")));
                    }
                    tensors.insert(name, tensor);
                }
                Ok(RawHeader { tensors })
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

/// An object of strings whose content does not matter: the `__metadata__` of the format.
struct StringMap;

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = StringMap;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
                while map.next_entry::<IgnoredAny, String>()?.is_some() {}
                Ok(StringMap)
            }
        }
        deserializer.deserialize_map(Strings)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dimensions;
        impl<'de> Visitor<'de> for Dimensions {
            type Value = Shape;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a list of dimensions")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Shape, A::Error> {
                let mut dimensions = Vec::new();
                while let Some(dimension) = sequence.next_element()? {
                    if dimensions.len() == MAX_RANK {
                        return Err(A::Error::custom(format!("more than {MAX_RANK} dimensions")));
                    }
                    dimensions.push(dimension);
                }
                Ok(Shape(dimensions))
            }
        }
        deserializer.deserialize_seq(Dimensions)
    }
}
