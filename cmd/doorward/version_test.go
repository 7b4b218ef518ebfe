package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for _, row := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "(devel)"},
		{&debug.BuildInfo{}, "(devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, "(devel) 0123456789ab+modified"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Settings: settings}, "v0.1.0"},
	} {
		want := "doorward " + row.want + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
		if got := describe(row.info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
