//! A report as one self-contained page: table, targets and charts.

use crate::report::{Form, Report};
use crate::svg;

const STYLE: &str = "\
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .3em .7em; border-bottom: 1px solid #8886; text-align: left; white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 820px; width: 100% }
";

/// Text as the content of an element or of a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The page of `report`: the figures first. The targets are there if they are asked for.
pub(crate) fn page(report: &Report, with_targets: bool) -> String {
    let title = escape(&format!("{}: {}", report.bench, report.title));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}<br>\n<code>{}</code></p>\n",
        svg::STYLE,
        escape(&report.machine.to_string()),
        escape(&report.command)
    );
    for chart in report.charts() {
        page.push_str(&svg::draw(chart, &report.rows));
    }
    page.push_str(&table(report));
    for note in &report.notes {
        page.push_str(&format!("<p>{}</p>\n", escape(note)));
    }
    if with_targets && !report.targets.is_empty() {
        page.push_str("<h2>Targets</h2>\n<ul>\n");
        for target in &report.targets {
            page.push_str(&format!("<li>{}</li>\n", escape(&target.words())));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn table(report: &Report) -> String {
    let line = |tag: &str, cells: Vec<String>| {
        let mut text = String::from("<tr>");
        for (column, cell) in report.columns.iter().zip(cells) {
            let class = match column.form {
                Form::Text => "",
                Form::Number { .. } => " class=\"number\"",
            };
            text.push_str(&format!("<{tag}{class}>{}</{tag}>", escape(&cell)));
        }
        text + "</tr>\n"
    };
    let headings = report.columns.iter().map(|column| column.heading.to_owned()).collect();
    let mut text = format!("<table>\n<thead>\n{}</thead>\n<tbody>\n", line("th", headings));
    let mut group = None;
    for row in &report.rows {
        let found = report.group.and_then(|key| row[key].as_str());
        if let Some(name) = found.filter(|_| found != group) {
            text.push_str(&format!(
                "<tr><th colspan=\"{}\">{}</th></tr>\n",
                report.columns.len(),
                escape(name)
            ));
            group = found;
        }
        let cells = report.columns.iter().map(|column| column.cell(row)).collect();
        text.push_str(&line("td", cells));
    }
    text + "</tbody>\n</table>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn a_page_is_whole_and_alone() {
        let page = page(&example(), true);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        for tag in [
            "table", "thead", "tbody", "tr", "svg", "ul", "li", "h1", "body", "style",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
        assert_eq!(page.matches("<tr>").count(), 5);
        for elsewhere in ["http", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn targets_and_charts_are_there_where_there_is_something_to_show() {
        let mut report = example();
        assert!(!page(&report, false).contains("<h2>Targets"));
        report.charts[0].y = "nothing";
        assert!(!page(&report, true).contains("<svg"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
        let mut report = example();
        report.command = "bench <i>".to_owned();
        report.notes = vec!["<i>".to_owned()];
        report.machine.cpu = "<i>".to_owned();
        report.title = "<i>".to_owned();
        report.targets[0].name = "<i>".to_owned();
        let page = page(&report, true);
        assert!(!page.contains("<i>") && !page.contains("<b>"));
        assert_eq!(page.matches("&lt;i&gt;").count(), 6);
    }

    #[test]
    fn groups_have_headings() {
        let mut report = example();
        report.group = Some("engine");
        report.rows.swap(1, 2);
        let page = page(&report, true);
        assert_eq!(page.matches("<th colspan=\"4\">").count(), 2);
        assert!(page.contains("<th colspan=\"4\">ours</th>"));
    }

    #[test]
    fn cells_are_those_of_the_table() {
        let page = page(&example(), true);
        assert!(page.contains("<td class=\"number\">12,345.7</td><td class=\"number\">1.50</td>"));
        assert!(page.contains("<th>engine</th><th class=\"number\">threads</th>"));
        assert!(page.contains("<li>same tip: 1 (wanted 1): met</li>"));
    }
}
