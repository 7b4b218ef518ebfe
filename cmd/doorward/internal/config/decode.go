package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxSize is how large a configuration file may be, in bytes.
const MaxSize = 1 << 20

// A scalar is one plain or quoted value. What is a mapping or a list instead has a
// tag that no setter takes.
type scalar struct {
	text   string
	quoted bool
	tag    string // !!str, !!int, !!bool, !!null, ...
}

// A setter is a type that reads itself from a scalar. The error says what the value
// must be; the decoder adds what it got.
type setter interface{ set(scalar) error }

// A lister is a type that reads itself from one scalar or a list of them.
type lister interface{ add(scalar) error }

// lone is a list that may be written as its only element.
type lone interface{ lone() }

// plain is a mapping that may be written as the value of one key.
type plain interface{ plain() string }

// decode reads the one document of a file into v, a pointer to a struct.
func (s *source) decode(data []byte, v any) {
	if len(data) > MaxSize {
		s.fail("", "must be at most %d bytes, got %d", MaxSize, len(data))
		return
	}
	if at, msg := badText(data); msg != "" {
		s.failAt(Error{File: s.file, Line: at.line, Col: at.col}, "", msg)
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	switch {
	case err == io.EOF || err == nil && isNull(doc.Content[0]):
		s.fail("", "is empty")
		return
	case err != nil:
		s.syntax(err)
		return
	}
	s.value("", doc.Content[0], reflect.ValueOf(v).Elem())
	switch err := dec.Decode(&next); {
	case err == io.EOF:
	case err != nil:
		s.syntax(err)
	default:
		s.failAt(Error{File: s.file, Line: next.Line, Col: next.Column}, "", "must be one document, here a second one starts")
	}
}

// badText finds what no YAML file may hold; the parser says so without a place.
func badText(data []byte) (at place, msg string) {
	line, col := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return place{line, col}, fmt.Sprintf("must be UTF-8, got the byte %#x", data[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return place{line, col}, fmt.Sprintf("must not have control characters, got %U", r)
		}
		i, col = i+n, col+1
		if r == '\n' {
			line, col = line+1, 1
		}
	}
	return place{}, ""
}

func (s *source) syntax(err error) {
	at := Error{File: s.file}
	msg := err.Error()
	if bad := (*yaml.LoadError)(nil); errors.As(err, &bad) {
		at.Line, at.Col, msg = bad.Mark.Line, bad.Mark.Column, bad.Message
		if bad.ContextMsg != "" {
			msg = bad.ContextMsg + ": " + msg
		}
	}
	s.failAt(at, "", "not YAML: "+clip(msg))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// value decodes n, which stands at path, into v.
func (s *source) value(path string, n *yaml.Node, v reflect.Value) {
	s.places[path] = place{n.Line, n.Column}
	switch {
	case n.Kind == yaml.AliasNode:
		s.fail(path, "must not be an alias: write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		s.fail(path, "must not have a tag, got %s", clip(n.Tag))
		return
	}
	switch to := v.Addr().Interface().(type) {
	case lister:
		s.list(path, n, to)
	case setter:
		s.scalar(path, n, to.set)
	case lone:
		if n.Kind == yaml.SequenceNode {
			s.slice(path, n, v)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		s.value(path, n, v.Index(0))
	case plain:
		if n.Kind == yaml.ScalarNode {
			s.value(path, n, fieldOf(v, to.plain()))
			return
		}
		s.mapping(path, n, v)
	default:
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			s.value(path, n, v.Elem())
		case reflect.Struct:
			s.mapping(path, n, v)
		case reflect.Map:
			s.named(path, n, v)
		case reflect.Slice:
			s.slice(path, n, v)
		case reflect.String:
			s.scalar(path, n, (*text)(v.Addr().Interface().(*string)).set)
		case reflect.Bool:
			s.scalar(path, n, (*boolean)(v.Addr().Interface().(*bool)).set)
		case reflect.Int:
			s.scalar(path, n, (*number)(v.Addr().Interface().(*int)).set)
		default:
			panic("config: no way to decode " + v.Type().String())
		}
	}
}

func (s *source) scalar(path string, n *yaml.Node, set func(scalar) error) {
	if err := set(toScalar(n)); err != nil {
		s.fail(path, "%v, got %s", err, shown(n))
	}
}

func (s *source) list(path string, n *yaml.Node, to lister) {
	if n.Kind != yaml.SequenceNode {
		s.scalar(path, n, to.add)
		return
	}
	if len(n.Content) == 0 {
		s.fail(path, "must not be empty")
	}
	for i, item := range n.Content {
		at := index(path, i)
		s.places[at] = place{item.Line, item.Column}
		s.scalar(at, item, to.add)
	}
}

func (s *source) slice(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		s.fail(path, "must be a list, got %s", shown(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		s.value(index(path, i), item, v.Index(i))
	}
}

func (s *source) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		s.fail(path, "must be a mapping with %s, got %s", strings.Join(keys(v.Type()), ", "), shown(n))
		return
	}
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		fields[v.Type().Field(i).Tag.Get("yaml")] = v.Field(i)
	}
	s.pairs(path, n, func(name string, at Error, val *yaml.Node) {
		if fields[name].IsValid() {
			s.value(join(path, name), val, fields[name])
			return
		}
		hint, meant := suggest(v.Type(), path, name)
		s.failAt(at, join(path, clip(name)), "unknown key"+hint)
		s.failed[meant] = true // what was meant is not missing
	})
}

// fieldOf returns the field that a key is read into.
func fieldOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == key {
			return v.Field(i)
		}
	}
	panic("config: no key " + key + " in " + v.Type().String())
}

// named decodes a mapping whose keys are names that the file gives.
func (s *source) named(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		s.fail(path, "must be a mapping from names, got %s", shown(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	s.pairs(path, n, func(name string, at Error, val *yaml.Node) {
		if !isName(name) || strings.Contains(name, ".") { // which paths are made with
			s.failAt(at, join(path, clip(name)), `must be named with 1 to 64 letters, digits or any of "_/-"`)
			return
		}
		to := reflect.New(v.Type().Elem()).Elem()
		s.value(join(path, name), val, to)
		v.SetMapIndex(reflect.ValueOf(name), to)
	})
}

// pairs calls each with every key of a mapping, where it stands, and its value. What no
// mapping may have is reported.
func (s *source) pairs(path string, n *yaml.Node, each func(name string, at Error, val *yaml.Node)) {
	lines := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := Error{File: s.file, Line: key.Line, Col: key.Column}
		switch name := key.Value; {
		case key.Tag == "!!merge":
			s.failAt(at, join(path, "<<"), "must not merge another mapping: write its keys out")
		case key.Kind != yaml.ScalarNode:
			s.failAt(at, path, fmt.Sprintf("keys must be text, got %s", shown(key)))
		case lines[name] != 0:
			s.failAt(at, join(path, clip(name)), fmt.Sprintf("must be there once, line %d has it too", lines[name]))
		default:
			lines[name] = key.Line
			each(name, at, val)
		}
	}
}

// keys returns the keys of a mapping that is decoded into t.
func keys(t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("yaml"))
	}
	return all
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func toScalar(n *yaml.Node) scalar {
	if n.Kind != yaml.ScalarNode {
		return scalar{tag: "!!none"}
	}
	return scalar{text: n.Value, tag: n.Tag, quoted: n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0}
}

// shown returns how a message shows a node.
func shown(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isNull(n):
		return "nothing"
	}
	if n.Style&^yaml.FlowStyle == 0 && n.Value != "" {
		return clip(n.Value)
	}
	return strconv.Quote(cut(n.Value))
}

// clip makes text from a file fit for one line of a message.
func clip(s string) string {
	s = cut(s)
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func cut(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
