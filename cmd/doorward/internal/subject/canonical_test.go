package subject

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/doorward/doorward"
)

// The same subject in ten ways is one.
func TestOneSubject(t *testing.T) {
	for _, ways := range [][]string{
		{
			"alice@example.com", "ALICE@EXAMPLE.COM", "Alice@Example.Com", " alice@example.com", "alice@example.com\t\r\n",
			"\u3000alice@example.com\u00a0", "ａｌｉｃｅ＠ｅｘａｍｐｌｅ．ｃｏｍ", "ali\u200bce@example.com", "\ufeffalice@example.com",
			"a\u00adlice@example.com", "alice@\u202eexample.com", "𝐚𝐥𝐢𝐜𝐞@example.com", "ⓐⓛⓘⓒⓔ@example.com", "alice\ufe0f@example.com",
			"al\u034fice@example.com", "al\U000e0061ice@example.com", "alice\x00@example.com", "alıce@example.com", "ALİCE@example.com",
			"\u2066alice@example.com\u2069", "alice\u3164@example.com", "alice\u180e@example.com", "alice@example.com\u2028",
		},
		{
			"straße", "STRASSE", "STRAẞE", "strasse", "ſtraße", "Straſſe", "ｓtraße", "stra\u00adße", " Straße ", "ﬆraße",
		},
		{
			"josé", "JOSÉ", "jose\u0301", "JOSE\u0301", "ｊosé", "j\u200dosé", "josé\u2003", "Jose\u034f\u0301", "\u2060josé", "jos\u00e9\ufe00",
		},
		{
			"σίσυφος", "ΣΊΣΥΦΟΣ", "Σίσυφοσ", "ςίςυφος", "σι\u0301συφος", "ΣΙ\u0301ΣΥΦΟΣ", "\u200eσίσυφος", "σίσυφος ", "σί\u00adσυφος", "ϲίσυφος",
		},
	} {
		if len(ways) < 10 {
			t.Fatalf("%d ways", len(ways))
		}
		for _, way := range ways {
			if got, want := Canonical(way), Canonical(ways[0]); got != want {
				t.Errorf("Canonical(%+q) = %+q, want %+q", way, got, want)
			}
			if doorward.KeyFromName(Canonical(way)) != doorward.KeyFromName(Canonical(ways[0])) {
				t.Errorf("%+q has a key of its own", way)
			}
		}
	}
}

// What the canonical form does not fold stays apart.
func TestTwoSubjects(t *testing.T) {
	all := []string{
		"alice", "alice1", "al ice", "al  ice", "alicе" /* Cyrillic */, "álice", "a.lice@example.com", "alice@example.com", "alice+x@example.com",
		"alice@example.org", "alice@googlemail.com", "alice@gmail.com", "01", "1", "jose", "josé", "josè", "ae", "ä", "æ", "o", "ø", "0", "l", "|",
		"strase", "strasse", "алиса", "alisa", "a_b", "a-b", "ab", "a\u2027b", "中", "中中", "あ", "い", "\u0601", "\u0602", "a:b", "a", ":b", "%61",
	}
	keys := map[doorward.Key]string{}
	for _, s := range all {
		c := Canonical(s)
		k := doorward.KeyFromName(c)
		if other, ok := keys[k]; ok {
			t.Errorf("%+q and %+q are one", s, other)
		}
		keys[k] = s
	}
}

func TestCanonical(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"", ""},
		{" \t\u2003\u200b\ufeff ", ""},
		{"\u3164\uffa0\u115f", ""},
		{"\x00\x1b\x7f\u0080", ""},
		{"Alice  Smith", "alice  smith"},
		{"a\xffb\xc3", "a\ufffdb\ufffd"},
		{"x²", "x2"},
		{"ﬁ", "fi"},
		{"İİ", "ii"},
		{"I\u0307", "i"},
		{"i\u0307\u0307", "i"},
		{"ı\u0307", "i"},
		{"I\u0323\u0307", "ị"},
		{"İ\u0323", "ị"},
		{"ı\u0331\u0307", "i\u0331"},
		{"j\u0307i", "j\u0307i"},
		{"ij\u0307", "ij\u0307"},
		{strings.Repeat("ﷺ", 30) + "A", strings.Repeat("صلى الله عليه وسلم", 30) + "a"},
		{strings.Repeat("ﷺ", 60) + "A", strings.Repeat("صلى الله عليه وسلم", 60) + "A"},
		{"\u0600" + "1", "\u06001"},
		{"e\u200b\u0301", "é"},
		{"\u1100\u200b\u1161", "가"},
	} {
		if got := Canonical(row.in); got != row.want {
			t.Errorf("Canonical(%+q) = %+q, want %+q", row.in, got, row.want)
		}
	}
}

// checkCanonical holds whatever the name.
func checkCanonical(t *testing.T, s string) {
	t.Helper()
	c := Canonical(s)
	switch {
	case Canonical(c) != c:
		t.Fatalf("Canonical(%+q) = %+q, whose canonical form is %+q", s, c, Canonical(c))
	case !utf8.ValidString(c):
		t.Fatalf("Canonical(%+q) = %+q is not UTF-8", s, c)
	case (c == "") != (visible(s) == ""):
		t.Fatalf("Canonical(%+q) = %+q, without normalizing it is %+q", s, c, visible(s))
	case len(visible(s)) > longName || len(norm.NFKD.String(visible(s))) > longName || len(norm.NFKD.String(c)) > longName:
		return // not folded
	case !norm.NFKC.IsNormalString(c) || visible(c) != c:
		t.Fatalf("Canonical(%+q) = %+q is not normal", s, c)
	}
	// Package norm composes U+E0043, a tag, as if it was C: the tags come off first.
	v := visible(s)
	for _, alias := range []string{norm.NFC.String(v), norm.NFD.String(v), norm.NFKC.String(v), norm.NFKD.String(v), " " + s + "\u200b"} {
		if utf8.ValidString(s) && Canonical(alias) != c {
			t.Fatalf("Canonical(%+q) = %+q, that of %+q is %+q", s, c, alias, Canonical(alias))
		}
	}
}

// Every character, in any letter case and form, and with neighbours.
func TestEveryCharacter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	marks := []rune{0x301, 0x307, 0x323, 0x345, 0x34f, 0x200b, 0x1161, 0x11a8, 'i', ' ', 0x3099}
	runes := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		ignorable := unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) && !ignorable ||
			r&63 != 0 && (unicode.In(r, unicode.Unified_Ideograph, unicode.Hangul, unicode.Tangut, unicode.Co) || ignorable) ||
			!utf8.ValidRune(r) {
			continue // unassigned, or like its neighbours
		}
		runes++
		s := string(r)
		c := Canonical("x" + s)
		if Canonical(c) != c {
			t.Errorf("%U: Canonical(%+q) = %+q, whose canonical form is %+q", r, s, c, Canonical(c))
		}
		for _, alias := range []string{strings.ToUpper(s), strings.ToLower(s), string(unicode.ToTitle(r)), norm.NFKD.String(s)} {
			if alias != s && Canonical("x"+alias) != c {
				t.Errorf("%U: Canonical(%+q) = %+q, that of %+q is %+q", r, s, c, alias, Canonical("x"+alias))
			}
		}
		if random.IntN(16) == 0 {
			checkCanonical(t, s)
			checkCanonical(t, s+string(marks[random.IntN(len(marks))])+s+string(marks[random.IntN(len(marks))]))
		}
	}
	t.Logf("%d characters", runes)
}

func TestLongNames(t *testing.T) {
	long := strings.Repeat("A", longName+1)
	if Canonical(long) != long || Canonical(long[1:]) != strings.ToLower(long[1:]) {
		t.Error("names are normalized up to another length")
	}
	if doorward.KeyFromName(Canonical(long)) != doorward.KeyFromName(strings.Repeat("b", doorward.MaxNameLength+1)) {
		t.Error("a long name has a key of its own")
	}
	hidden := strings.Repeat("\u200b", longName) + "Alice" + strings.Repeat(" ", longName)
	spread := strings.Repeat("ﷺ", 60) // is longer when normalized
	if got := Canonical(spread); len(got) <= doorward.MaxNameLength || Canonical(got) != got {
		t.Errorf("%d bytes become %d", len(spread), len(got))
	}
	if got := Canonical(hidden); got != "alice" {
		t.Errorf("a short name that hides has the canonical form %.40q", got)
	}
}

// Idempotent, and one for all forms of a name.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"Alice", "İı\u0307", "e\u200b\u0301", "ﬃ²", "\u1100\u3164\u1161", "ΐ\u0345", "\u0f71\u0f80\u0307i", "a\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkCanonical(t, s)
		if utf8.ValidString(s) && len(s) <= longName/40 {
			// The iota below (U+0345) is a letter in upper case, which marks do not pass.
			n := norm.NFKD.String(visible(s))
			for _, alias := range []string{strings.ToUpper(n), strings.ToLower(n)} {
				if got, want := Canonical(alias), Canonical(s); got != want {
					t.Fatalf("Canonical(%+q) = %+q, that of %+q is %+q", s, want, alias, got)
				}
			}
		}
	})
}
