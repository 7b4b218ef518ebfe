package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/doorward/doorward/redisstore/internal/remote"
	"github.com/redis/rueidis"
)

// absences are the first words of what a server answers that cannot decide for anybody now: it
// starts, was made a replica, has lost its cluster or its replicas, or hands keys over to another.
// No caller brings one about.
var absences = []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "TRYAGAIN"}

// said reports whether a server that can decide answered with err.
func said(err error) bool {
	var e *rueidis.RedisError
	if !errors.As(err, &e) || e.IsNil() {
		return false
	}
	word, _, _ := strings.Cut(e.Error(), " ")
	return !slices.Contains(absences, word)
}

// away returns err so that a line sees whether the server is away: it is if there is no
// connection, or none that is secured and takes our password, and if it says that it cannot
// decide. All else is an answer.
func away(err error) error {
	if err == nil || line.Unreachable(err) {
		return err
	}
	var (
		answer      *rueidis.RedisError
		file        *fs.PathError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	switch {
	case errors.As(err, &answer) && !said(err),
		errors.Is(err, rueidis.ErrClosing), errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, rueidis.ErrNoAddr),
		errors.As(err, &file), errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return fmt.Errorf("%w: %w", line.ErrUnreachable, err)
	}
	return err
}

// A far is the store on the server, whose errors say whether that is away.
type far struct{ *remote.Store }

func (f far) Reserve(ctx context.Context, charges []guard.Charge) error {
	return away(f.Store.Reserve(ctx, charges))
}

func (f far) Settle(ctx context.Context, charges []guard.Charge) error {
	return away(f.Store.Settle(ctx, charges))
}
