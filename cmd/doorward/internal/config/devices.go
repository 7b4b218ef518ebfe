package config

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
)

// Devices says how known devices are told from strangers.
type Devices struct {
	Keys   Keys // newest first
	Cookie string
	TTL    time.Duration
}

// Keys are secrets. They print as how many there are.
type Keys [][]byte

func (k Keys) String() string       { return fmt.Sprintf("%d secret keys", len(k)) }
func (k Keys) GoString() string     { return k.String() }
func (k Keys) LogValue() slog.Value { return slog.StringValue(k.String()) }

const (
	minKeyBytes = 32
	maxKeyFile  = 4 << 10
)

// devices reads the keys. No error shows what a key file holds.
func (s *source) devices(f *devicesFile) *Devices {
	if f == nil {
		return nil
	}
	const path = "devices"
	d := &Devices{Cookie: f.Cookie, TTL: time.Duration(f.TTL)}
	if d.Cookie == "" {
		d.Cookie = httpguard.DefaultDeviceCookie
	}
	if d.TTL == 0 {
		d.TTL = device.DefaultTTL
	}
	if !isToken(d.Cookie) {
		s.fail(path+".cookie", "must be the name of a cookie, got %q", cut(d.Cookie))
	}
	if len(f.KeyFiles) == 0 {
		s.fail(path+".key_files", "must be files with one key each, newest first")
	}
	for i, name := range f.KeyFiles {
		at := index(path+".key_files", i)
		if s.failed[at] {
			continue
		}
		key, err := readKey(s.beside(name))
		if err != nil {
			s.fail(at, "%v, got %s", err, clip(f.KeyFiles[i]))
			continue
		}
		if same := slices.IndexFunc(d.Keys, func(k []byte) bool { return bytes.Equal(k, key) }); same >= 0 {
			s.fail(at, "must hold another key than the files before it")
			continue
		}
		d.Keys = append(d.Keys, key)
	}
	if s.failedWithin(path) {
		return d
	}
	if _, err := device.New(device.Config{Guard: "any", Keys: d.Keys, TTL: d.TTL}); err != nil {
		s.core(path, err, map[string]string{"Keys": "key_files", "TTL": "ttl"})
	}
	return d
}

var errNoKey = errors.New("must hold one line of base64, as openssl rand -base64 32 prints")

// readKey reads a file with a key: one line of base64.
func readKey(name string) ([]byte, error) {
	text, err := readRegular(name, maxKeyFile)
	if errors.Is(err, errTooLong) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	line := strings.TrimRight(strings.TrimSpace(text), "=")
	line = strings.NewReplacer("-", "+", "_", "/").Replace(line)
	key, err := base64.RawStdEncoding.DecodeString(line)
	if err != nil || strings.ContainsAny(line, "\r\n") {
		return nil, errNoKey
	}
	if len(key) < minKeyBytes {
		return nil, fmt.Errorf("must hold a key of at least %d bytes in base64, there are %d", minKeyBytes, len(key))
	}
	if len(bytes.Trim(key, "\x00")) == 0 {
		return nil, errors.New("must hold a random key, not zeros")
	}
	return key, nil
}

// isToken reports whether s may be the name of a cookie (RFC 6265, 4.1.1).
func isToken(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// devicesUsed reports keys that nothing is signed with.
func (s *source) devicesUsed(guards []*guard.Guard) {
	if !s.has("devices") || len(guards) == 0 {
		return
	}
	for _, g := range guards {
		if g == nil || HasDevices(g.Rules()) {
			return
		}
	}
	s.fail("devices", "must be used by a rule with per: device, as preset: login has one")
}

// HasDevices reports whether some rule charges known devices.
func HasDevices(rules []guard.Rule) bool {
	return slices.ContainsFunc(rules, func(r guard.Rule) bool { return r.Per == guard.Device })
}
