//! Drawing in pixels: a thin layer over plotters' SVG backend with the few shapes the chart has.
//!
//! The chart is laid out by hand and not by plotters' axes, which measure text with fonts that a
//! build without font libraries does not have.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::words;

/// White space around everything, and the height of a line of small text.
pub const EDGE: i32 = 24;
pub const LINE: i32 = 18;

pub const SMALL: Type = Type::new(12.0, ink::QUIET);

pub type Drawn = Result<(), String>;

/// Colours from the Okabe–Ito palette, which keep apart under every common colour blindness; the
/// inks are dark enough to be read as text on white.
pub mod ink {
    use plotters::style::RGBColor;

    pub const TEXT: RGBColor = RGBColor(34, 34, 34);
    pub const QUIET: RGBColor = RGBColor(95, 95, 95);
    pub const RULE: RGBColor = RGBColor(224, 224, 224);
    pub const OVER: RGBColor = RGBColor(184, 66, 0);
    pub const KEPT: RGBColor = RGBColor(0, 104, 165);
    pub const UNTOLD: RGBColor = RGBColor(118, 118, 118);
    /// What no check judges.
    pub const FIGURE: RGBColor = RGBColor(0, 112, 82);
}

/// A text's size in pixels, weight and colour.
#[derive(Clone, Copy)]
pub struct Type {
    pub size: f64,
    pub bold: bool,
    pub ink: RGBColor,
}

impl Type {
    pub const fn new(size: f64, ink: RGBColor) -> Self {
        Self { size, bold: false, ink }
    }

    pub const fn bold(size: f64, ink: RGBColor) -> Self {
        Self { size, bold: true, ink }
    }

    /// About how wide a text comes out, on the wide side: the reader's sans-serif is not known.
    pub fn width(&self, text: &str) -> i32 {
        (words::chars(text) as f64 * self.per_char()).ceil() as i32
    }

    /// How many characters fit into so many pixels.
    pub fn fitting(&self, pixels: i32) -> usize {
        (f64::from(pixels) / self.per_char()).max(8.0) as usize
    }

    fn per_char(&self) -> f64 {
        self.size * if self.bold { 0.66 } else { 0.6 }
    }
}

pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl<'a> Canvas<'a> {
    pub fn new(buffer: &'a mut String, size: (i32, i32)) -> Result<Self, String> {
        let size = (size.0.max(1) as u32, size.1.max(1) as u32);
        let area = SVGBackend::with_string(buffer, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        Ok(Self { area })
    }

    /// `at` is the middle of the text's height, and its start, middle or end as `h` says.
    pub fn text(&self, text: &str, at: (i32, i32), kind: Type, h: HPos) -> Drawn {
        let style = if kind.bold { FontStyle::Bold } else { FontStyle::Normal };
        // The backend divides by 1.24 to get at the em.
        let font = FontDesc::new(FontFamily::SansSerif, kind.size * 1.24, style);
        let style = TextStyle::from(font).color(&kind.ink).pos(Pos::new(h, VPos::Center));
        self.area.draw_text(&words::clean(text), &style, at).map_err(|e| e.to_string())
    }

    pub fn line(&self, from: (i32, i32), to: (i32, i32), ink: RGBColor, width: u32) -> Drawn {
        let path = PathElement::new(vec![from, to], ink.stroke_width(width));
        self.area.draw(&path).map_err(|e| e.to_string())
    }

    /// A line through points; a single one is a dot of it.
    pub fn path(&self, points: &[(i32, i32)], ink: RGBColor, width: u32) -> Drawn {
        match points {
            [] => Ok(()),
            [(x, y)] => self.line((*x, *y), (*x + 1, *y), ink, width),
            many => {
                let path = PathElement::new(many.to_vec(), ink.stroke_width(width));
                self.area.draw(&path).map_err(|e| e.to_string())
            }
        }
    }

    /// A dot with a white rim, so that dots that overlap can still be counted.
    pub fn dot(&self, at: (i32, i32), ink: RGBColor) -> Drawn {
        for (radius, ink) in [(5, WHITE), (4, ink)] {
            self.area.draw(&Circle::new(at, radius, ink.filled())).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// White ground for a text, so that no line crosses it.
    pub fn blank(&self, from: (i32, i32), to: (i32, i32)) -> Drawn {
        self.area.draw(&Rectangle::new([from, to], WHITE.filled())).map_err(|e| e.to_string())
    }

    /// A filled rectangle.
    pub fn field(&self, from: (i32, i32), to: (i32, i32), ink: RGBColor) -> Drawn {
        self.area.draw(&Rectangle::new([from, to], ink.filled())).map_err(|e| e.to_string())
    }

    pub fn finish(self) -> Drawn {
        self.area.present().map_err(|e| e.to_string())
    }
}

/// A text in lines that fit between the edges of a picture so wide.
pub fn fold(text: &str, kind: Type, width: i32) -> Vec<String> {
    words::fold(&words::clean(text), kind.fitting(width - 2 * EDGE), &[' '])
}
