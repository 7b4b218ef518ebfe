package httpguard_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

var quiet = log.New(io.Discard, "", 0)

func refusal(reason doorward.Reason, wait time.Duration, rule string, per guard.Per) guard.Verdict {
	return guard.Verdict{Decision: doorward.Decision{Reason: reason, RetryAfter: wait}, Rule: rule, Per: per}
}

func TestStatusAndRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		v          guard.Verdict
		status     int
		retryAfter string
	}{
		{"locked", refusal(doorward.Locked, time.Minute, "network", guard.Network), 429, "60"},
		{"spent", refusal(doorward.Spent, time.Minute, "network", guard.Network), 429, "60"},
		{"subject", refusal(doorward.Locked, time.Minute, "subject", guard.Subject), 429, "60"},
		{"challenge", refusal(doorward.Locked, time.Minute, "challenge", guard.Challenge), 429, "60"},
		{"pair", refusal(doorward.Locked, time.Minute, "pair", guard.Pair), 429, "60"},
		{"device", refusal(doorward.Locked, time.Minute, "device", guard.Device), 429, "60"},
		{"busy", refusal(doorward.Busy, time.Second, "network", guard.Network), 429, "1"},
		{"busy, a lease ends later", refusal(doorward.Busy, 30*time.Second, "network", guard.Network), 429, "1"},
		{"busy, no time known", refusal(doorward.Busy, 0, "network", guard.Network), 429, "1"},
		{"overflow", guard.Verdict{Decision: doorward.Decision{Reason: doorward.Locked, RetryAfter: time.Minute, Overflow: true}, Rule: "network"}, 429, "60"},
		{"everyone", refusal(doorward.Locked, time.Minute, "everyone", guard.Everyone), 503, "60"},
		{"everyone, busy", refusal(doorward.Busy, time.Second, "everyone", guard.Everyone), 503, "1"},
		{"everyone without a rule", refusal(doorward.Locked, time.Minute, "", guard.Everyone), 429, "60"},
		{"ceiling", refusal(doorward.Ceiling, time.Minute, "network", guard.Network), 503, "60"},
		{"unavailable", refusal(doorward.Unavailable, 0, "", guard.Network), 503, "1"},
		{"blocked", refusal(doorward.Blocked, 0, "", guard.Network), 403, ""},
		{"blocked, whatever it says", refusal(doorward.Blocked, time.Minute, "x", guard.Everyone), 403, ""},
		{"the zero Verdict", guard.Verdict{}, 429, "1"},
		{"a nanosecond", refusal(doorward.Locked, 1, "n", 0), 429, "1"},
		{"one second", refusal(doorward.Locked, time.Second, "n", 0), 429, "1"},
		{"a nanosecond more", refusal(doorward.Locked, time.Second+1, "n", 0), 429, "2"},
		{"P11, 1.3 s", refusal(doorward.Locked, 1300*time.Millisecond, "n", 0), 429, "2"},
		{"P11, 0.001 s", refusal(doorward.Locked, time.Millisecond, "n", 0), 429, "1"},
		{"a day", refusal(doorward.Locked, 24*time.Hour, "n", 0), 429, "86400"},
		{"a nanosecond less than a day", refusal(doorward.Locked, 24*time.Hour-1, "n", 0), 429, "86400"},
		{"a nanosecond more than a day", refusal(doorward.Locked, 24*time.Hour+1, "n", 0), 429, "86400"},
		{"for ever", refusal(doorward.Locked, math.MaxInt64, "n", 0), 429, "86400"},
		{"almost for ever", refusal(doorward.Locked, math.MaxInt64-1, "n", 0), 429, "86400"},
		{"negative", refusal(doorward.Locked, math.MinInt64, "n", 0), 429, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			httpguard.Refuse(w, from("192.0.2.7", "POST", ""), tt.v)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if got := strings.Join(w.Header()["Retry-After"], "|"); got != tt.retryAfter {
				t.Errorf("Retry-After %q, want %q", got, tt.retryAfter)
			}
			if got := httpguard.Status(tt.v); got != tt.status {
				t.Errorf("Status %d, want %d", got, tt.status)
			}
		})
	}
}

// TestAlike: neither the rule, the key, the reason nor the wait can be told from an
// answer, but for Retry-After.
func TestAlike(t *testing.T) {
	var verdicts []guard.Verdict
	for _, reason := range []doorward.Reason{doorward.Locked, doorward.Busy, doorward.Spent, doorward.Ceiling, doorward.Unavailable} {
		for per := guard.Network; per <= guard.Everyone; per++ {
			for _, wait := range []time.Duration{0, time.Second, time.Hour, math.MaxInt64} {
				v := refusal(reason, wait, "rule-"+per.String(), per)
				v.Overflow = wait == time.Hour
				v.Shadow = uint16(per)
				verdicts = append(verdicts, v)
			}
		}
	}
	for _, accept := range []string{"", "*/*", "text/html", "application/json"} {
		seen := map[int]string{}
		for _, v := range verdicts {
			r := from("192.0.2.7", "POST", "")
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			httpguard.Refuse(w, r, v)
			w.Header().Del("Retry-After")
			var b strings.Builder
			w.Header().Write(&b)
			b.WriteString(w.Body.String())
			if first, ok := seen[w.Code]; ok && first != b.String() {
				t.Fatalf("%d for %+v differs:\n%s\nwant\n%s", w.Code, v, b.String(), first)
			}
			seen[w.Code] = b.String()
		}
		if len(seen) != 2 {
			t.Errorf("Accept %q: %d statuses, want 429 and 503", accept, len(seen))
		}
	}
}

// TestAlikeOnTheWire compares what two callers get whom different rules refuse.
func TestAlikeOnTheWire(t *testing.T) {
	wide := guard.Rule{Name: "wide", V4: 24, V6: -1, Lockout: free(5)}
	narrow := guard.Rule{Name: "narrow", Lockout: free(2)}
	answer := func(rules ...guard.Rule) string {
		gate := newGate(t, httpguard.Options{Guard: newGuard(t, guard.Config{Rules: rules})})
		s := serve(t, gate.Handler(wrong), false)
		for {
			res, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode == 429 {
				res.Header.Del("Date")
				return fmt.Sprint(res.Proto, res.Status, res.Header, res.ContentLength, string(body))
			}
		}
	}
	if a, b := answer(wide), answer(narrow); a != b {
		t.Errorf("the answers differ:\n%s\n%s", a, b)
	}
}

func TestAnswerBodies(t *testing.T) {
	for _, tt := range []struct {
		accept, contentType string
	}{
		{"application/json", "application/problem+json"},
		{"application/problem+json", "application/problem+json"},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8"},
		{"*/*", "text/plain; charset=utf-8"},
		{"", "text/plain; charset=utf-8"},
	} {
		for _, status := range []int{400, 403, 408, 413, 415, 429, 502, 503, 504, 418} {
			r := from("192.0.2.7", "POST", "")
			if tt.accept != "" {
				r.Header.Set("Accept", tt.accept)
			}
			w := httptest.NewRecorder()
			w.Header().Set("Content-Length", "7")
			httpguard.Answer(w, r, status)
			h := w.Header()
			if w.Code != status || h.Get("Content-Type") != tt.contentType || h.Get("Cache-Control") != "no-store" ||
				h.Get("Vary") != "Accept" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Length") != "" {
				t.Errorf("Accept %q, %d: %d %v", tt.accept, status, w.Code, h)
			}
			page := strings.HasPrefix(tt.contentType, "text/html")
			if (h.Get("Content-Security-Policy") != "") != page {
				t.Errorf("Accept %q: Content-Security-Policy %q", tt.accept, h.Get("Content-Security-Policy"))
			}
			body := w.Body.String()
			switch {
			case strings.HasSuffix(tt.contentType, "json"):
				var problem struct {
					Type, Title, Detail string
					Status              int
				}
				if err := json.Unmarshal([]byte(body), &problem); err != nil {
					t.Fatalf("%v in %s", err, body)
				}
				if problem.Type != "about:blank" || problem.Title != http.StatusText(status) || problem.Status != status || problem.Detail == "" {
					t.Errorf("problem %+v", problem)
				}
			case page:
				_, style, _ := strings.Cut(body, "<style>")
				style, _, _ = strings.Cut(style, "</style>")
				sum := sha256.Sum256([]byte(style))
				if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(h.Get("Content-Security-Policy"), want) {
					t.Errorf("the policy %q does not allow the style: %s", h.Get("Content-Security-Policy"), want)
				}
				if strings.Contains(body, "<script") || len(body) > 2048 || !strings.HasPrefix(body, "<!doctype html>") {
					t.Errorf("page of %d bytes:\n%s", len(body), body)
				}
			case strings.Contains(body, "<"):
				t.Errorf("text has markup:\n%s", body)
			}
			head := httptest.NewRecorder()
			r.Method = "HEAD"
			httpguard.Answer(head, r, status)
			if head.Body.Len() != 0 || head.Code != status || head.Header().Get("Content-Type") != tt.contentType {
				t.Errorf("HEAD: %d %v %q", head.Code, head.Header(), head.Body)
			}
		}
	}
}

func TestRefuseReplaced(t *testing.T) {
	for _, body := range []string{"", "password=x"} {
		var got guard.Verdict
		var addr string
		gate := newGate(t, httpguard.Options{
			Guard: newGuard(t, perNetwork(1)),
			Refuse: func(w http.ResponseWriter, r *http.Request, v guard.Verdict) {
				p := httpguard.FromRequest(r)
				got, addr = v, p.Addr().String()
				if p.Verdict() != v || p.Settle(doorward.Succeeded) {
					t.Error("the permit of a refused request is not the verdict, or can be settled")
				}
				if _, settled := p.Outcome(); settled {
					t.Error("a refused request has an outcome")
				}
				w.WriteHeader(http.StatusTeapot)
			},
		})
		h := gate.Handler(wrong)
		if w := do(h, from("192.0.2.7", "POST", body)); w.Code != 401 {
			t.Fatalf("first: %d", w.Code)
		}
		if w := do(h, from("192.0.2.7", "POST", body)); w.Code != http.StatusTeapot || w.Header().Get("Retry-After") != "" {
			t.Errorf("second: %d %v", w.Code, w.Header())
		}
		if got.Reason != doorward.Locked || got.Rule != "network" || addr != "192.0.2.7" {
			t.Errorf("Refuse was called with %+v for %s", got, addr)
		}
	}
}
