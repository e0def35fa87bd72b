//! A document as one HTML file that needs nothing beside it: no network, no fonts, no other file.
//!
//! It follows the reader's choice of light or dark, reads well without its script (which only sorts tables and
//! unfolds everything for paper), and can be used from the keyboard alone. Its policy forbids it to load anything.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::words;
use super::{Align, Block, Item, Span, Table, Text, bare};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The document as a page of that title.
pub fn render(title: &str, blocks: &[Block]) -> String {
    let mut page = Page::default();
    let contents = page.contents(blocks);
    page.blocks(blocks);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the content</a>\n{contents}<main id=\"content\">\n{}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escaped(&words::clean(title)),
        page.text
    )
}

#[derive(Default)]
struct Page {
    text: String,
    /// Second-level headings so far: their number is their address.
    sections: usize,
    /// What tables and pictures are called so far: who hears the page tells them apart by it.
    called: BTreeMap<String, usize>,
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($page:expr, $($told:tt)*) => { let _ = write!($page.text, $($told)*); };
}

impl Page {
    /// Links to the sections, where there are several.
    fn contents(&self, blocks: &[Block]) -> String {
        let heads = blocks.iter().filter_map(|b| match b {
            Block::Heading(2, text) => Some(bare(text)),
            _ => None,
        });
        let links: Vec<String> = (1..)
            .zip(heads)
            .map(|(n, head)| format!("<li><a href=\"#section-{n}\">{}</a></li>", escaped(&head)))
            .collect();
        if links.len() < 2 {
            return String::new();
        }
        format!("<nav aria-label=\"Contents\">\n<ul>\n{}\n</ul>\n</nav>\n", links.join("\n"))
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(level, text) => {
                let level = (*level).clamp(1, 4);
                let mut address = String::new();
                if level == 2 {
                    self.sections += 1;
                    address = format!(" id=\"section-{}\"", self.sections);
                }
                put!(self, "<h{level}{address}>{}</h{level}>\n", line(text));
            }
            Block::Para(text) => {
                put!(self, "<p>{}</p>\n", line(text));
            }
            Block::List(items) => self.list("ul", items),
            Block::Steps(items) => self.list("ol", items),
            Block::Table(table) => self.table(table),
            Block::Chart { svg, alt, .. } => self.chart(svg, alt),
            Block::Shell(command) => {
                put!(
                    self,
                    "<pre tabindex=\"0\"><code>{}</code></pre>\n",
                    escaped(&words::printable(command))
                );
            }
            Block::Fold { title, open, blocks } => {
                let open = if *open { " open" } else { "" };
                put!(self, "<details{open}>\n<summary>{}</summary>\n", line(title));
                self.blocks(blocks);
                self.text.push_str("</details>\n");
            }
            Block::Alarm(text) => {
                put!(self, "<p class=\"alarm\">{}</p>\n", line(text));
            }
        }
    }

    fn list(&mut self, tag: &str, items: &[Item]) {
        put!(self, "<{tag}>\n");
        for Item(lines) in items {
            let lines: Vec<String> = lines.iter().map(line).collect();
            put!(self, "<li>{}</li>\n", lines.join("<br>\n"));
        }
        put!(self, "</{tag}>\n");
    }

    fn table(&mut self, table: &Table) {
        let caption = self.name(&table.caption);
        put!(self, "<section class=\"scroll\" aria-label=\"{caption}\" tabindex=\"0\">\n");
        put!(self, "<table>\n<caption>{caption}</caption>\n<thead>\n<tr>");
        let class = |align: Align| if align == Align::Right { " class=\"right\"" } else { "" };
        for (head, align) in &table.heads {
            // A corner without a name is no head of anything.
            let tag = if bare(head).is_empty() { "td" } else { "th" };
            let scope = if tag == "th" { " scope=\"col\"" } else { "" };
            put!(self, "<{tag}{scope}{}>{}</{tag}>", class(*align), line(head));
        }
        self.text.push_str("</tr>\n</thead>\n<tbody>\n");
        for row in &table.rows {
            self.text.push_str("<tr>");
            for (n, (cell, (_, align))) in row.iter().zip(&table.heads).enumerate() {
                let class = class(*align);
                if n == 0 && !bare(cell).is_empty() {
                    put!(self, "<th scope=\"row\"{class}>{}</th>", line(cell));
                } else {
                    put!(self, "<td{class}>{}</td>", line(cell));
                }
            }
            self.text.push_str("</tr>\n");
        }
        self.text.push_str("</tbody>\n</table>\n</section>\n");
    }

    /// A name that nothing else on the page has.
    fn name(&mut self, name: &str) -> String {
        let name = escaped(&words::clean(name));
        let times = self.called.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 { format!("{name} ({times})") } else { name }
    }

    /// A picture scrolls by itself where the page is too narrow for its text to be read.
    fn chart(&mut self, svg: &str, alt: &str) {
        let alt = self.name(alt);
        // What every shape says and is so anyway is a fifth of a picture.
        let svg = svg.replace(" opacity=\"1\"", "").replace(" stroke=\"none\"", "");
        put!(self, "<figure class=\"chart scroll\" role=\"group\" aria-label=\"{alt}\" tabindex=\"0\">\n");
        put!(self, "{}\n</figure>\n", svg.trim_end());
    }
}

fn line(text: &Text) -> String {
    text.iter().map(span).collect()
}

fn span(span: &Span) -> String {
    match span {
        Span::Plain(text) => escaped(&words::printable(text)),
        Span::Code(text) => format!("<code>{}</code>", escaped(&words::printable(text))),
        Span::Strong(text) => format!("<strong>{}</strong>", escaped(&words::printable(text))),
        Span::Link { text, to } => {
            format!("<a href=\"{}\">{}</a>", escaped(&words::printable(to)), escaped(&words::printable(text)))
        }
        Span::Verdict(tone, label) => {
            format!("<span class=\"{}\">{}</span>", tone.name(), escaped(&words::clean(label)))
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{code, heading, para, plain};
    use super::*;

    fn table() -> Block {
        Block::Table(Table {
            caption: "c".to_owned(),
            heads: vec![(plain(""), Align::Left), (plain("n"), Align::Right)],
            rows: vec![vec![code("a|b"), plain("1")]],
        })
    }

    #[test]
    fn nothing_that_a_report_says_becomes_markup_or_leaves_the_page() {
        let nasty = "</script><img src=x onerror=alert(1)>&\u{0}\u{1b}\"'";
        let blocks = [
            heading(2, nasty),
            para(nasty),
            Block::Shell(nasty.to_owned()),
            Block::Fold { title: code(nasty), open: false, blocks: vec![table()] },
            Block::Para(vec![Span::Link { text: nasty.to_owned(), to: nasty.to_owned() }]),
        ];
        let page = render(nasty, &blocks);
        assert!(!page.contains("<img") && page.matches("</script>").count() == 1, "{page}");
        assert!(page.chars().all(|c| !c.is_control() || c == '\n'));
        let own = render("t", &[table()]).replace("http-equiv", "");
        for loads in ["http:", "https:", "@import", "url(", "src=", "fetch(", "<link"] {
            assert!(!own.contains(loads), "{loads}");
        }
    }

    #[test]
    fn a_table_names_its_columns_and_rows_for_who_hears_it() {
        let page = render("t", &[table()]);
        assert!(page.contains("<tr><td></td><th scope=\"col\" class=\"right\">n</th></tr>"), "{page}");
        assert!(page.contains("<th scope=\"row\"><code>a|b</code></th><td class=\"right\">1</td>"), "{page}");
    }

    #[test]
    fn two_tables_of_one_caption_are_told_apart() {
        let page = render("t", &[table(), table()]);
        assert!(page.contains("aria-label=\"c\"") && page.contains("aria-label=\"c (2)\""), "{page}");
    }

    #[test]
    fn sections_can_be_reached() {
        let page = render("t", &[heading(1, "t"), heading(2, "first"), heading(2, "second")]);
        assert!(page.contains("<a href=\"#section-2\">second</a>"));
        assert!(page.contains("<h2 id=\"section-2\">second</h2>"));
        assert!(!render("t", &[heading(2, "only")]).contains("<nav"));
    }
}
