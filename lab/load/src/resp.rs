// SPDX-License-Identifier: Apache-2.0
//! RESP2, the redis protocol, as far as SET, GET and DBSIZE need it.

use anyhow::{Context, Result, bail};

/// Appends a command: an array of bulk strings.
pub fn encode(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// A reply, borrowed from the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+OK`
    Simple(&'a [u8]),
    /// `-ERR ...`
    Error(&'a [u8]),
    /// `:5`
    Integer(i64),
    /// `$3`, three bytes
    Bulk(&'a [u8]),
    /// `$-1`: no such key
    Nil,
}

/// The first reply in `buffer` and its length, or `None` if it is incomplete.
pub fn parse(buffer: &[u8]) -> Result<Option<(Reply<'_>, usize)>> {
    let Some(end) = buffer.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (line, body) = (&buffer[..end], end + 2);
    let [kind, rest @ ..] = line else {
        bail!("the server sent an empty line");
    };
    let number = || {
        let text = std::str::from_utf8(rest).ok();
        text.and_then(|text| text.parse::<i64>().ok()).with_context(|| {
            format!("the server sent `{}`, not a number", String::from_utf8_lossy(line))
        })
    };
    let reply = match kind {
        b'+' => Reply::Simple(rest),
        b'-' => Reply::Error(rest),
        b':' => Reply::Integer(number()?),
        b'$' => {
            let Ok(len) = usize::try_from(number()?) else {
                return Ok(Some((Reply::Nil, body)));
            };
            let Some(after) = buffer.get(body + len..body + len + 2) else {
                return Ok(None);
            };
            if after != b"\r\n" {
                bail!("a bulk string of {len} bytes has the wrong length");
            }
            return Ok(Some((Reply::Bulk(&buffer[body..body + len]), body + len + 2)));
        }
        _ => bail!("the server sent `{}`", String::from_utf8_lossy(line)),
    };
    Ok(Some((reply, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&mut out, &[b"SET", b"k", b"a\r\nb"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn replies_are_parsed_one_by_one_and_when_complete() {
        let stream = b"+OK\r\n$4\r\na\r\nb\r\n$-1\r\n:17\r\n$0\r\n\r\n-ERR no\r\n";
        let expected = [
            Reply::Simple(b"OK"),
            Reply::Bulk(b"a\r\nb"),
            Reply::Nil,
            Reply::Integer(17),
            Reply::Bulk(b""),
            Reply::Error(b"ERR no"),
        ];
        let mut at = 0;
        for reply in expected {
            let (found, used) = parse(&stream[at..]).unwrap().unwrap();
            assert_eq!(found, reply);
            for cut in 0..used {
                assert_eq!(parse(&stream[at..at + cut]).unwrap(), None, "{reply:?} cut at {cut}");
            }
            at += used;
        }
        assert_eq!(at, stream.len());
    }

    #[test]
    fn nonsense_is_an_error() {
        for wrong in [&b"hello\r\n"[..], b"\r\n", b":x\r\n", b"$2\r\nabcd\r\n"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
