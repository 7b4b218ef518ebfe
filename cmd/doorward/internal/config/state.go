package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// State says where the guards' counts are kept while no process runs.
type State struct {
	File  string
	Key   Keys // one
	Every time.Duration
}

// How often a state may be written: each time all of it is.
const (
	minStateEvery = 100 * time.Millisecond
	maxStateEvery = time.Hour
)

// state reads the key. The file itself is for serve to read.
func (s *source) state(f *stateFile) *State {
	if f == nil {
		return nil
	}
	const path = "state"
	st := &State{Every: time.Duration(f.Every)}
	if st.Every == 0 {
		st.Every = DefaultStateEvery
	}
	if st.Every < minStateEvery || st.Every > maxStateEvery {
		s.fail(path+".every", "must be %s to %s, got %s", ShowDuration(minStateEvery), ShowDuration(maxStateEvery), ShowDuration(st.Every))
	}
	switch {
	case f.File == "":
		s.fail(path+".file", "must be the file that counts are kept in, such as doorward.state")
	default:
		st.File = s.beside(f.File)
		if err := writable(st.File); err != nil {
			s.fail(path+".file", "%v, got %s", err, clip(f.File))
		}
	}
	if f.KeyFile == "" {
		s.fail(path+".key_file", "must be a file with one key, as openssl rand -base64 32 prints")
		return st
	}
	st.Key = s.key(path, f.KeyFile, st.File)
	return st
}

// key reads the one key of what is at path, whose own file is another one.
func (s *source) key(path, keyFile, file string) Keys {
	if s.failed[path+".key_file"] {
		return nil
	}
	name := s.beside(keyFile)
	if file != "" && filepath.Clean(name) == filepath.Clean(file) {
		s.fail(path+".key_file", "must be another file than %s.file, got %s", path, clip(keyFile))
		return nil
	}
	key, err := readKey(name)
	if err != nil {
		s.fail(path+".key_file", "%v, got %s", err, clip(keyFile))
		return nil
	}
	return Keys{key}
}

// writable reports what keeps a file from being put at a path, as far as can be told
// without doing it.
func writable(name string) error {
	dir, err := os.Stat(filepath.Dir(name))
	if err != nil || !dir.IsDir() {
		return errors.New("must be in a directory that exists")
	}
	if info, err := os.Lstat(name); err == nil && info.Mode().Type() != fs.ModeSymlink && !info.Mode().IsRegular() {
		return errors.New("must be a regular file")
	}
	return nil
}
