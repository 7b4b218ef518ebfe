// Package client asks a daemon by its admin API, and changes things there.
//
// It promises that an error says what to do about it: that nothing listens, that a socket
// belongs to somebody else, that a token is wanted. A token is never sent where others
// could read it. Nothing is asked twice by itself, and no redirect is followed.
package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/trace"
)

// Config says where a daemon is, and what opens it.
type Config struct {
	// Admin is unix:/PATH or a URL, "" for where a daemon is by default.
	Admin string
	// TokenFile has a token in its first line.
	TokenFile string
	// CAFile has the certificates of authorities that sign the daemon's, "" for those of
	// the system.
	CAFile string
	// CertFile and KeyFile are what this side shows.
	CertFile, KeyFile string
}

// A Client asks one daemon. It is safe for concurrent use.
type Client struct {
	// Wait is how long an answer may take.
	Wait  time.Duration
	place string // as an error names it
	base  string
	token string
	http  *http.Client
}

const (
	unixPrefix = "unix:"
	dialTime   = 5 * time.Second
	// callTime is how long an answer may take: a reload probes all of a configuration.
	callTime = 30 * time.Second
	maxBody  = 64 << 20
)

// New returns a client, or an error that names what of c is wrong. It connects to nothing.
func New(c Config) (*Client, error) {
	places := []string{c.Admin}
	if c.Admin == "" {
		if places = config.AdminPlaces(); len(places) == 0 {
			return nil, fmt.Errorf("%s is off: name the daemon with --admin", config.AdminEnv)
		}
	}
	if name, ok := strings.CutPrefix(places[0], unixPrefix); ok {
		if !filepath.IsAbs(name) {
			return nil, fmt.Errorf("--admin must be unix:/PATH with a path from the root, or a URL, got %q", places[0])
		}
		for flag, value := range map[string]string{"--token-file": c.TokenFile, "--ca-file": c.CAFile, "--cert-file": c.CertFile, "--key-file": c.KeyFile} {
			if value != "" {
				return nil, fmt.Errorf("%s goes with a URL, not with %s: the mode of a socket says who may use it", flag, places[0])
			}
		}
		return &Client{Wait: callTime, place: strings.Join(places, " or "), base: "http://localhost", http: over(&http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialFirst(ctx, places) },
		})}, nil
	}
	u, err := url.Parse(places[0])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("--admin must be unix:/PATH or a URL such as http://127.0.0.1:9180, got %q", places[0])
	}
	cl := &Client{Wait: callTime, place: places[0], base: u.Scheme + "://" + u.Host}
	if c.TokenFile != "" {
		if u.Scheme == "http" && !config.IsLoopback(net.JoinHostPort(u.Hostname(), "0")) {
			return nil, fmt.Errorf("--token-file must not be used with %s: the token would pass in clear; take https", places[0])
		}
		if cl.token, err = readToken(c.TokenFile); err != nil {
			return nil, err
		}
	}
	show, err := tlsConfig(c, u.Scheme)
	if err != nil {
		return nil, err
	}
	cl.http = over(&http.Transport{TLSClientConfig: show, ForceAttemptHTTP2: true, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime})
	return cl, nil
}

func over(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// dialFirst connects to the first socket that somebody listens on. What is in the way of
// one that is there matters more than that another is not.
func dialFirst(ctx context.Context, places []string) (c net.Conn, err error) {
	for _, p := range places {
		d := net.Dialer{Timeout: dialTime}
		c, e := d.DialContext(ctx, "unix", strings.TrimPrefix(p, unixPrefix))
		if e == nil {
			return c, nil
		}
		if err == nil || absent(err) {
			err = e
		}
	}
	return nil, err
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTSOCK)
}

func readToken(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	line = strings.TrimSpace(line)
	if line == "" || strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("--token-file: %s: must have a token in its first line", name)
	}
	return line, nil
}

func tlsConfig(c Config, scheme string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	for flag, value := range map[string]string{"--ca-file": c.CAFile, "--cert-file": c.CertFile, "--key-file": c.KeyFile} {
		if value != "" && scheme != "https" {
			return nil, fmt.Errorf("%s goes with a URL of https", flag)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("--cert-file and --key-file go together")
	}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file: %s: has no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// An Unreachable error means that no daemon could be asked.
type Unreachable struct{ msg string }

func (u Unreachable) Error() string { return u.msg }

// A Problem is a daemon's answer that it did not do what was asked.
type Problem struct {
	Status int
	api.Problem
}

// Error has each error of a configuration on a line of its own.
func (p Problem) Error() string {
	if len(p.Errors) > 0 {
		return strings.Join(p.Errors, "\n")
	}
	return p.Problem.Error
}

// Status returns what the daemon is and has counted.
func (c *Client) Status(ctx context.Context) (s api.Status, err error) {
	return s, c.ask(ctx, "GET", api.StatusPath, nil, nil, &s)
}

// Keys calls each for every key, in the order of their places. Query may have guard, rule
// and state. It ends early if each returns false.
func (c *Client) Keys(ctx context.Context, query url.Values, each func(api.Key) bool) error {
	query = cloned(query)
	for {
		var p api.Page
		if err := c.ask(ctx, "GET", api.KeysPath, query, nil, &p); err != nil {
			return err
		}
		for _, k := range p.Keys {
			if !each(k) {
				return nil
			}
		}
		if p.Next == "" {
			return nil
		}
		query.Set("cursor", p.Next)
	}
}

func cloned(v url.Values) url.Values {
	c := url.Values{}
	for key, values := range v {
		c[key] = slices.Clone(values)
	}
	return c
}

// Why returns what is known of a caller or a subject.
func (c *Client) Why(ctx context.Context, who api.Who) (w api.Why, err error) {
	q := url.Values{}
	for key, value := range map[string]string{"address": who.Address, "subject": who.Subject, "key": who.Key} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return w, c.ask(ctx, "GET", api.WhyPath, q, nil, &w)
}

// Unlock forgets what was counted, and returns what that was.
func (c *Client) Unlock(ctx context.Context, u api.Unlock) (done api.Unlocked, err error) {
	return done, c.ask(ctx, "POST", api.UnlockPath, nil, u, &done)
}

// Clear forgets all that a guard or a rule counted.
func (c *Client) Clear(ctx context.Context, cl api.Clear) error {
	return c.ask(ctx, "POST", api.ClearPath, nil, cl, nil)
}

// Networks returns what is exempt or blocked for a time.
func (c *Client) Networks(ctx context.Context) (n api.Networks, err error) {
	return n, c.ask(ctx, "GET", api.NetworksPath, nil, nil, &n)
}

// List exempts or blocks a network for a time.
func (c *Client) List(ctx context.Context, l api.List) (n api.Network, err error) {
	return n, c.ask(ctx, "POST", api.NetworksPath, nil, l, &n)
}

// Unlist ends that before its time.
func (c *Client) Unlist(ctx context.Context, id string, by api.By) error {
	return c.ask(ctx, "DELETE", api.NetworksPath+"/"+url.PathEscape(id), nil, by, nil)
}

// Reload makes the daemon read its configuration again. What is wrong with it is a
// Problem with Errors.
func (c *Client) Reload(ctx context.Context, by api.By) error {
	return c.ask(ctx, "POST", api.ReloadPath, nil, api.Reload{By: by}, nil)
}

// Events calls each for every line until ctx ends, the daemon does, or nothing has come
// for quiet: not even the empty lines that say that nothing happens. Query may have door,
// client and event. Begun says that there was a stream; the error is nil if the daemon
// ended it.
func (c *Client) Events(ctx context.Context, query url.Values, quiet time.Duration, each func(line []byte) error) (begun bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := c.request(ctx, "GET", api.EventsPath, query, nil)
	if err != nil {
		return false, err
	}
	silence := time.AfterFunc(quiet, func() { cancel(errQuiet) })
	defer silence.Stop()
	res, err := c.http.Do(r)
	if err != nil {
		return false, c.explain(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, c.problem(res)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, trace.MaxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		silence.Reset(quiet)
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			if err := each(line); err != nil {
				return true, err
			}
		}
	}
	switch err := lines.Err(); {
	case context.Cause(ctx) == errQuiet:
		return true, Unreachable{fmt.Sprintf("the daemon at %s has said nothing for %v", c.place, quiet)}
	case err == nil:
		return true, nil
	default:
		return true, Unreachable{fmt.Sprintf("the connection to %s broke: %v", c.place, err)}
	}
}

var errQuiet = errors.New("nothing came")

// wholeLines splits as bufio.ScanLines does, but for what is left when a stream is cut off.
func wholeLines(data []byte, _ bool) (int, []byte, error) {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 {
		return 0, nil, nil
	}
	return n, data[:n], nil
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// ask makes a request and reads the answer into out, if there is to be one.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	r, err := c.request(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	res, err := c.http.Do(r)
	if err != nil {
		return c.explain(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return c.problem(res)
	}
	if out == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return c.explain(err)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return c.stranger(res, path)
	}
	return nil
}

// problem turns an answer that is not 2xx into an error.
func (c *Client) problem(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	p := Problem{Status: res.StatusCode}
	known := json.Unmarshal(body, &p.Problem) == nil && (p.Problem.Error != "" || len(p.Errors) > 0)
	switch {
	case known && res.StatusCode == http.StatusUnauthorized && c.token == "":
		return Unreachable{fmt.Sprintf("the daemon at %s wants a token (--token-file) or a certificate (--cert-file): %s", c.place, p.Problem.Error)}
	case known && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden):
		return Unreachable{fmt.Sprintf("the daemon at %s does not let this in: %s", c.place, p.Problem.Error)}
	case known:
		return p
	}
	return c.stranger(res, res.Request.URL.Path)
}

// stranger is the error for an answer that no daemon of this version gives.
func (c *Client) stranger(res *http.Response, path string) error {
	return Unreachable{fmt.Sprintf("what listens at %s does not answer %s as this doorward would (status %d): it is another version of it, or another program", c.place, path, res.StatusCode)}
}

// explain says what to do when no answer came.
func (c *Client) explain(err error) error {
	if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	op, authority, host := (*net.OpError)(nil), x509.UnknownAuthorityError{}, x509.HostnameError{}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case absent(err):
		return Unreachable{fmt.Sprintf("nothing listens at %s: is doorward serving, and with admin on?", c.place)}
	case errors.Is(err, fs.ErrPermission):
		msg := fmt.Sprintf("no permission to use %s", c.place)
		if errors.As(err, &op) && op.Addr != nil {
			msg = fmt.Sprintf("no permission to use %s%s%s", unixPrefix, op.Addr, owner(op.Addr.String()))
		}
		return Unreachable{msg + ": run this as the user that doorward serves as, or with sudo"}
	case errors.Is(err, context.DeadlineExceeded):
		return Unreachable{fmt.Sprintf("the daemon at %s did not answer in time", c.place)}
	case errors.As(err, &authority):
		return Unreachable{fmt.Sprintf("%s: its certificate is signed by nobody known here: name the authority with --ca-file", c.place)}
	case errors.As(err, &host):
		return Unreachable{fmt.Sprintf("%s: its certificate is for another name: %v", c.place, err)}
	case strings.Contains(err.Error(), "tls: certificate required"):
		return Unreachable{fmt.Sprintf("the daemon at %s wants a certificate (--cert-file, --key-file)", c.place)}
	}
	return Unreachable{fmt.Sprintf("%s: %v", c.place, err)}
}

// owner says whose socket it is, if that can be seen.
func owner(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	name := "user " + strconv.Itoa(int(s.Uid))
	if u, err := user.LookupId(strconv.Itoa(int(s.Uid))); err == nil {
		name = u.Username
	}
	return fmt.Sprintf(", which belongs to %s (mode %04o)", name, info.Mode().Perm())
}
