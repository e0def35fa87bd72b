//! The codec against its own definition: what was encoded is read back, however the bytes arrive, and
//! bytes that are no RESP are refused without being believed.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { bulk: 4096, line: 256, inline: 256, elements: 512, depth: 6, total: 1 << 16 };

fn no_line_end() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>().prop_filter("a line", |b| !matches!(b, b'\r' | b'\n')), 0..20)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(b"\r\n".to_vec()),
        Just(b"$5\r\nab\r\n*-1\r\n".to_vec()),
    ]
}

fn double() -> impl Strategy<Value = Vec<u8>> {
    const FIXED: [&str; 9] = ["inf", "-inf", "nan", "-nan", "1e10", "-2.5E-7", "10", ".5", "3."];
    prop_oneof![
        prop::sample::select(&FIXED[..]).prop_map(|t| t.as_bytes().to_vec()),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}").into_bytes()),
    ]
}

fn leaf() -> impl Strategy<Value = Frame> {
    prop_oneof![
        no_line_end().prop_map(Frame::Simple),
        no_line_end().prop_map(Frame::Error),
        any::<i64>().prop_map(Frame::Int),
        bytes().prop_map(Frame::Bulk),
        prop::sample::select(&[Nil::Bulk, Nil::Array, Nil::Null][..]).prop_map(Frame::Nil),
        any::<bool>().prop_map(Frame::Bool),
        double().prop_map(Frame::Double),
        any::<i128>().prop_map(|n| Frame::BigNumber(n.to_string().into_bytes())),
        bytes().prop_map(Frame::BulkError),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| Frame::Verbatim { format, text }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    leaf().prop_recursive(4, 40, 5, |inner| {
        let many = || prop::collection::vec(inner.clone(), 0..5);
        let pairs = || prop::collection::vec((inner.clone(), inner.clone()), 0..3);
        prop_oneof![
            many().prop_map(Frame::Array),
            many().prop_map(Frame::Set),
            many().prop_map(Frame::Push),
            pairs().prop_map(Frame::Map),
            (pairs(), inner.clone())
                .prop_map(|(attributes, frame)| Frame::Attributed { attributes, frame: Box::new(frame) }),
        ]
    })
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    encode(frame, &mut out);
    out
}

/// Cuts at these places, as far as they are inside.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

proptest! {
    #[test]
    fn what_was_encoded_is_parsed_and_nothing_behind_it(frame in frame(), behind in bytes()) {
        let mut all = encoded(&frame);
        let len = all.len();
        all.extend_from_slice(&behind);
        prop_assert_eq!(parse(&all, &LIMITS), Ok(Some((frame, len))));
    }

    #[test]
    fn every_beginning_of_a_frame_asks_for_more(frame in frame()) {
        let all = encoded(&frame);
        for end in 0..all.len() {
            prop_assert_eq!(parse(&all[..end], &LIMITS), Ok(None), "{} of {}", end, all.len());
        }
    }

    #[test]
    fn frames_are_the_same_in_whatever_pieces_they_arrive(
        frames in prop::collection::vec(frame(), 1..8), cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let stream: Vec<u8> = frames.iter().flat_map(encoded).collect();
        let mut decoder = Decoder::new(LIMITS);
        let (mut got, mut raw) = (Vec::new(), Vec::new());
        for piece in pieces(&stream, &cuts) {
            decoder.feed(piece);
            while let Some((frame, bytes)) = decoder.next().unwrap() {
                got.push(frame);
                raw.extend_from_slice(bytes);
            }
        }
        prop_assert_eq!(got, frames);
        prop_assert_eq!(raw, stream);
    }

    #[test]
    fn commands_are_the_same_in_whatever_pieces_they_arrive(
        commands in prop::collection::vec(prop::collection::vec(bytes(), 0..6), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let mut stream = Vec::new();
        commands.iter().for_each(|args| encode_command(args, &mut stream));
        let mut decoder = CommandDecoder::new(LIMITS);
        let (mut got, mut raw) = (Vec::new(), Vec::new());
        for piece in pieces(&stream, &cuts) {
            decoder.feed(piece);
            while let Some((args, bytes)) = decoder.next().unwrap() {
                got.push(args);
                raw.extend_from_slice(bytes);
            }
        }
        prop_assert_eq!(got, commands);
        prop_assert_eq!(raw, stream);
    }

    #[test]
    fn an_error_is_the_same_in_whatever_pieces_the_bytes_arrive(
        frame in frame(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let mut bytes = encoded(&frame);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let whole = parse(&bytes, &LIMITS);
        let mut decoder = Decoder::new(LIMITS);
        let mut split = Ok(None);
        for piece in pieces(&bytes, &cuts) {
            decoder.feed(piece);
            split = decoder.next().map(|found| found.map(|(frame, raw)| (frame, raw.len())));
            if split != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(split, whole);
    }

    #[test]
    fn any_bytes_are_a_frame_or_refused_or_cut_short(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some((frame, len))) = parse(&bytes, &LIMITS) {
            prop_assert!(len <= bytes.len());
            // Numbers and line ends may have been written in another way; the value is the same.
            let again = encoded(&frame);
            let (same, all) = parse(&again, &LIMITS).unwrap().unwrap();
            prop_assert_eq!(encoded(&same), &again[..all]);
        }
        let _ = parse_command(&bytes, &LIMITS);
    }
}

#[track_caller]
fn refused(bytes: &[u8], why: Why) {
    assert_eq!(parse(bytes, &LIMITS).map_err(|e| e.why), Err(why), "{}", bytes.escape_ascii());
}

#[test]
fn what_is_declared_is_refused_before_it_is_there() {
    refused(b"$4097\r\n", Why::LongBulk(4096));
    refused(b"$18446744073709551615\r\n", Why::LongBulk(4096));
    refused(b"$18446744073709551616\r\n", Why::NotANumber);
    refused(b"*513\r\n", Why::ManyElements(512));
    refused(b"%257\r\n", Why::ManyElements(512));
    refused(b"|256\r\n", Why::ManyElements(512));
    refused(b"*9223372036854775807\r\n", Why::ManyElements(512));
    refused(b"*300\r\n*300\r\n", Why::ManyElements(512));
    refused(&b"*1\r\n".repeat(7), Why::Deep(6));
    refused(&b"|0\r\n".repeat(7), Why::Deep(6));
    refused(
        &[b"*17\r\n".to_vec(), encoded(&Frame::Bulk(vec![b'x'; 4096])).repeat(16)].concat(),
        Why::Long(1 << 16),
    );
    refused(&[b"+".to_vec(), vec![b'x'; 300]].concat(), Why::LongLine(256));
    refused(&[b"$".to_vec(), vec![b'1'; 40]].concat(), Why::LongLine(32));
}

#[test]
fn what_is_no_length_is_refused() {
    refused(b"$-2\r\n", Why::Negative);
    refused(b"*-2\r\n", Why::Negative);
    refused(b"%-1\r\n", Why::Negative);
    refused(b"=-1\r\n", Why::Negative);
    refused(b"$?\r\n", Why::Streamed);
    refused(b"$+1\r\n", Why::NotANumber);
    refused(b"$01\r\n", Why::NotANumber);
    refused(b"$ 1\r\n", Why::NotANumber);
    refused(b"$\r\n", Why::NotANumber);
    refused(b"$1\n\r\n", Why::NotANumber);
    refused(b":\r\n", Why::NotANumber);
    refused(b":9223372036854775808\r\n", Why::NotANumber);
    refused(b"$2\r\nabc\r\n", Why::NoLineEnd);
    refused(b"#x\r\n", Why::BadValue);
    refused(b"_x\r\n", Why::BadValue);
    refused(b",1.2.3\r\n", Why::BadValue);
    refused(b",1e\r\n", Why::BadValue);
    refused(b",\r\n", Why::BadValue);
    refused(b"(1a\r\n", Why::BadValue);
    refused(b"=3\r\ntxt\r\n", Why::BadValue);
    refused(b"=5\r\ntxt x\r\n", Why::BadValue);
    refused(b"hello", Why::UnknownType(b'h'));
    refused(b"*2\r\n:1\r\nx", Why::UnknownType(b'x'));
}

#[test]
fn numbers_are_read_up_to_the_ends_of_their_range() {
    for n in [i64::MIN, -1, 0, 1, i64::MAX] {
        assert_eq!(parse(format!(":{n}\r\n").as_bytes(), &LIMITS).unwrap().unwrap().0, Frame::Int(n));
    }
    assert_eq!(parse(b":+7\r\n", &LIMITS).unwrap().unwrap().0, Frame::Int(7));
}

#[track_caller]
fn command(bytes: &[u8]) -> Result<Option<(Args, usize)>, Why> {
    parse_command(bytes, &LIMITS).map_err(|e| e.why)
}

#[test]
fn commands_come_as_arrays_and_as_lines() {
    let get = |len| Ok(Some((vec![b"GET".to_vec(), b"a b".to_vec()], len)));
    assert_eq!(command(b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\nrest"), get(22));
    assert_eq!(command(b"GET \"a b\"\r\nrest"), get(11));
    assert_eq!(command(b"GET 'a b'\nrest"), get(10));
    assert_eq!(command(b"*0\r\nx"), Ok(Some((vec![], 4))));
    assert_eq!(command(b"\r\nx"), Ok(Some((vec![], 2))));
    assert_eq!(command(b"GET"), Ok(None));
    assert_eq!(command(b""), Ok(None));
}

#[test]
fn commands_that_redis_would_hang_up_on_are_refused() {
    assert_eq!(command(b"*-1\r\n"), Err(Why::Negative));
    assert_eq!(command(b"*513\r\n"), Err(Why::ManyElements(512)));
    assert_eq!(command(b"*99999999999999999999\r\n"), Err(Why::NotANumber));
    assert_eq!(command(&[b"*".to_vec(), vec![b'9'; 30]].concat()), Err(Why::LongLine(20)));
    assert_eq!(command(b"*1\r\n:1\r\n"), Err(Why::NotABulk(b':')));
    assert_eq!(command(b"*1\r\n$-1\r\n"), Err(Why::Negative));
    assert_eq!(command(b"*1\r\n$4097\r\n"), Err(Why::LongBulk(4096)));
    assert_eq!(command(b"*1\r\n$1\r\nab\r\n"), Err(Why::NoLineEnd));
    assert_eq!(command(b"GET \"a\r\n"), Err(Why::Quotes));
    assert_eq!(command(&vec![b'x'; 300]), Err(Why::LongLine(256)));
    let whole = [
        b"*17\r\n".to_vec(),
        [b"$4096\r\n".to_vec(), vec![b'x'; 4096], b"\r\n".to_vec()].concat().repeat(17),
    ];
    assert_eq!(command(&whole.concat()), Err(Why::Long(1 << 16)));
}

#[test]
fn a_refused_stream_stays_refused_and_gives_its_bytes_back() {
    let mut decoder = Decoder::new(LIMITS);
    decoder.feed(b":1\r\n?garbage");
    assert_eq!(decoder.next().unwrap(), Some((Frame::Int(1), &b":1\r\n"[..])));
    let error = decoder.next().unwrap_err();
    decoder.feed(b":2\r\n");
    assert_eq!(decoder.next().unwrap_err(), error);
    assert_eq!(decoder.rest(), b"?garbage:2\r\n");
}

/// A decoder that began anew with each piece would look at 10^10 bytes here, and not come back.
#[test]
fn a_frame_in_a_hundred_thousand_pieces_is_read_once() {
    let frame = Frame::Array(vec![Frame::Bulk(vec![b'\n'; 20]); 100_000]);
    let limits = Limits { elements: 1 << 20, total: 1 << 30, ..LIMITS };
    let mut decoder = Decoder::new(limits);
    let mut got = None;
    for piece in encoded(&frame).chunks(3) {
        decoder.feed(piece);
        got = got.or(decoder.next().unwrap().map(|(frame, _)| frame));
    }
    assert!(got == Some(frame));
}
