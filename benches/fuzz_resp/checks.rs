//! What must hold for any bytes.

use std::hash::{DefaultHasher, Hash, Hasher};

use rl_lab::wire::keys::keys_of;
use rl_lab::wire::resp::{
    CommandDecoder, Decoder, Frame, Limits, ProtocolError, encode, encode_command, parse, parse_command,
};

use crate::allocations;
use crate::mutate::Dice;

/// The peak above what was there before. The loop has one thread.
fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = allocations::now();
    allocations::forget_peak();
    let result = run();
    (result, allocations::peak() - before)
}

const LIMITS: Limits =
    Limits { bulk: 1 << 20, line: 4096, inline: 4096, elements: 4096, depth: 12, total: 4 << 20 };

/// What a byte that arrived may cost: the least frame is three bytes and takes one value, and a vector
/// that grows holds up to three times of it for a moment.
const PER_BYTE: usize = 64;
const AT_LEAST: usize = 4096;

pub struct Shape {
    pub hash: u64,
    /// The bytes begin with a whole frame or command.
    pub whole: bool,
}

pub fn check(input: &[u8], dice: &mut Dice) -> Result<Shape, String> {
    let (frame, peak) = peak_of(|| parse(input, &LIMITS));
    frugal(input, peak, "parse")?;
    let (command, peak) = peak_of(|| parse_command(input, &LIMITS));
    frugal(input, peak, "parse_command")?;
    if let Ok(Some((frame, used))) = &frame {
        same_again(frame, *used, input)?;
    }
    if let Ok(Some((args, used))) = &command {
        commanded_again(args, *used, input)?;
    }
    let cuts = cuts(input.len(), dice);
    let whole = frames(input, &[0, input.len()]);
    if frames(input, &cuts) != whole {
        return Err(format!("frames differ when cut at {cuts:?}"));
    }
    if commands(input, &cuts) != commands(input, &[0, input.len()]) {
        return Err(format!("commands differ when cut at {cuts:?}"));
    }
    let mut hasher = DefaultHasher::new();
    shape(&frame, &mut hasher);
    match &command {
        Ok(None) => 0.hash(&mut hasher),
        Ok(Some((args, _))) => (args.len().min(6), keys_of(args).len().min(3)).hash(&mut hasher),
        Err(error) => std::mem::discriminant(&error.why).hash(&mut hasher),
    }
    whole.0.len().min(4).hash(&mut hasher);
    let complete = matches!(frame, Ok(Some(_))) || matches!(command, Ok(Some(_)));
    Ok(Shape { hash: hasher.finish(), whole: complete })
}

fn frugal(input: &[u8], peak: usize, what: &str) -> Result<(), String> {
    if peak <= PER_BYTE * input.len() + AT_LEAST {
        return Ok(());
    }
    Err(format!("{what} allocates {peak} bytes for {}", input.len()))
}

/// Numbers may be written in more than one way, so the bytes may differ; the value may not.
fn same_again(frame: &Frame, used: usize, input: &[u8]) -> Result<(), String> {
    if used > input.len() {
        return Err("more bytes are used than there are".to_owned());
    }
    let mut bytes = Vec::new();
    encode(frame, &mut bytes);
    let len = bytes.len();
    match parse(&bytes, &LIMITS) {
        Ok(Some((again, used))) if used == len && (again == *frame || has_line_end(frame)) => Ok(()),
        other => Err(format!("{frame:?} comes back as {other:?}")),
    }
}

/// A lone carriage return or line feed in a line is written as a space.
fn has_line_end(frame: &Frame) -> bool {
    match frame {
        Frame::Simple(text) | Frame::Error(text) => text.iter().any(|b| matches!(b, b'\r' | b'\n')),
        Frame::Array(frames) | Frame::Set(frames) | Frame::Push(frames) => frames.iter().any(has_line_end),
        Frame::Map(pairs) => pairs.iter().any(|(k, v)| has_line_end(k) || has_line_end(v)),
        Frame::Attributed { attributes, frame } => {
            has_line_end(frame) || attributes.iter().any(|(k, v)| has_line_end(k) || has_line_end(v))
        }
        _ => false,
    }
}

fn commanded_again(args: &[Vec<u8>], used: usize, input: &[u8]) -> Result<(), String> {
    if used > input.len() || keys_of(args).iter().any(|key| !args.iter().any(|arg| arg == key)) {
        return Err("more bytes or keys than there are".to_owned());
    }
    let mut bytes = Vec::new();
    encode_command(args, &mut bytes);
    match parse_command(&bytes, &LIMITS) {
        Ok(Some((again, used))) if used == bytes.len() && again == args => Ok(()),
        other => Err(format!("{args:?} comes back as {other:?}")),
    }
}

fn cuts(len: usize, dice: &mut Dice) -> Vec<usize> {
    let count = dice.below(8);
    let mut cuts: Vec<usize> = (0..count).map(|_| dice.below(len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts
}

type Heard<T> = (Vec<(T, Vec<u8>)>, Option<ProtocolError>, Vec<u8>);

fn frames(input: &[u8], cuts: &[usize]) -> Heard<Frame> {
    let mut decoder = Decoder::new(LIMITS);
    let (heard, broken) = hear(input, cuts, |piece, heard| {
        decoder.feed(piece);
        while let Some((frame, raw)) = decoder.next()? {
            heard.push((frame, raw.to_vec()));
        }
        Ok(())
    });
    (heard, broken, decoder.rest())
}

fn commands(input: &[u8], cuts: &[usize]) -> Heard<Vec<Vec<u8>>> {
    let mut decoder = CommandDecoder::new(LIMITS);
    let (heard, broken) = hear(input, cuts, |piece, heard| {
        decoder.feed(piece);
        while let Some((args, raw)) = decoder.next()? {
            heard.push((args, raw.to_vec()));
        }
        Ok(())
    });
    (heard, broken, decoder.rest())
}

/// Hands over piece after piece, those behind a refusal as well, and keeps the last refusal.
fn hear<T>(
    input: &[u8],
    cuts: &[usize],
    mut take: impl FnMut(&[u8], &mut Vec<(T, Vec<u8>)>) -> Result<(), ProtocolError>,
) -> (Vec<(T, Vec<u8>)>, Option<ProtocolError>) {
    let (mut heard, mut broken) = (Vec::new(), None);
    for piece in cuts.windows(2) {
        if let Err(error) = take(&input[piece[0]..piece[1]], &mut heard) {
            broken = Some(error);
        }
    }
    (heard, broken)
}

/// Types and nesting, with lengths as classes; of a refusal its reason.
fn shape(outcome: &Result<Option<(Frame, usize)>, ProtocolError>, hasher: &mut DefaultHasher) {
    match outcome {
        Ok(None) => 0.hash(hasher),
        Ok(Some((frame, _))) => shape_of(frame, 0, hasher),
        Err(error) => (std::mem::discriminant(&error.why), error.at.min(16) / 4).hash(hasher),
    }
}

fn shape_of(frame: &Frame, depth: usize, hasher: &mut DefaultHasher) {
    std::mem::discriminant(frame).hash(hasher);
    if depth > 3 {
        return;
    }
    let many = |frames: &[Frame], hasher: &mut DefaultHasher| {
        frames.len().min(4).hash(hasher);
        frames.iter().take(4).for_each(|frame| shape_of(frame, depth + 1, hasher));
    };
    match frame {
        Frame::Bulk(text) | Frame::Simple(text) | Frame::Error(text) => text.len().min(2).hash(hasher),
        Frame::Array(frames) | Frame::Set(frames) | Frame::Push(frames) => many(frames, hasher),
        Frame::Map(pairs) => {
            pairs.len().min(3).hash(hasher);
            pairs.iter().take(3).for_each(|(_, value)| shape_of(value, depth + 1, hasher));
        }
        Frame::Attributed { frame, .. } => shape_of(frame, depth + 1, hasher),
        _ => {}
    }
}
