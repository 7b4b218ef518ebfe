package replay

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A page is well-formed, loads nothing, runs nothing, and shows what is in a log as text.
func TestHTML(t *testing.T) {
	const nasty = `<script>alert("1")</script>&amp;'"><img src=x onerror=alert(1)>`
	p := at(network(strict))
	p.Name = nasty
	p.Doors[0].AllFailed = true
	q := at(network(usual))
	q.Name = "other " + nasty
	r, err := New(Options{Suggest: true, Alone: true, Format: "combined"}, p, q)
	if err != nil {
		t.Fatal(err)
	}
	lines := ""
	for i := range 30 {
		lines += strings.Replace(text(try{i * 20, "2001:db8::1", 302}), "agent", nasty, 1)
	}
	log := logs(lines + nasty + "\n")[0]
	log.Name = nasty
	if err := r.Run(log); err != nil {
		t.Fatal(err)
	}
	report := r.Report()
	if report.Suggested, err = r.Suggest(Grid(), nil); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	elements, words := map[string]int{}, ""
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			elements[n.Data]++
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "src" || strings.Contains(a.Val, "url(") {
					t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
				}
			}
		}
		if n.Type == html.TextNode {
			words += n.Data
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(root)
	for _, forbidden := range []string{"script", "img", "link", "iframe", "object", "a", "form"} {
		if elements[forbidden] > 0 {
			t.Errorf("%d <%s>", elements[forbidden], forbidden)
		}
	}
	if elements["svg"] < 5 || elements["table"] < 4 || strings.Contains(page, "@import") || !strings.Contains(page, "prefers-color-scheme: dark") {
		t.Errorf("elements %v", elements)
	}
	for _, want := range []string{"Replay of " + nasty, "other " + nasty, "2001:db8::/64", "no other beats it"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "<no value>") || strings.Contains(page, "%!") {
		t.Error("the page has what a template could not write")
	}
}

// A page of a log without attempts is a page.
func TestHTMLEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := replayed(t, Options{}, at(network(usual)), "").WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "</html>") || strings.Contains(b.String(), "NaN") {
		t.Errorf("%s", &b)
	}
}
