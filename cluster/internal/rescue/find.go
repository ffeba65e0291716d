package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/secret"
)

// Find looks for a snapshot by its name on all servers. Its token is that of the cluster now.
func (r *Rescue) Find(ctx context.Context, name string) (Source, error) {
	var errs []error
	for _, n := range r.Spec.Servers() {
		have, err := r.observe(ctx, n)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
			continue
		}
		s, err := have.FindSnapshot(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
			continue
		}
		key, err := r.currentKey(ctx)
		if err != nil {
			return Source{}, err
		}
		return Source{
			SavedSnapshot: s, Key: key,
			Made: snapshotTime(name), Version: have.State().Version,
			Open: func(ctx context.Context) (io.ReadCloser, error) {
				from, into := io.Pipe()
				go func() { into.CloseWithError(r.Distribution.Fetch(ctx, n.Name, s, into)) }()
				return from, nil
			},
		}, nil
	}
	return Source{}, fmt.Errorf("snapshot %s: %w", name, errors.Join(errs...))
}

// snapshotTime is the time in a snapshot's name, which K3s puts at its end.
func snapshotTime(name string) string {
	name = strings.TrimSuffix(name, ".zip")
	seconds, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil {
		return "when " + name + " was taken"
	}
	return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04:05 UTC")
}

// currentKey decrypts the cluster's snapshots, also where a restore was cut short.
func (r *Rescue) currentKey(ctx context.Context) (secret.Value, error) {
	var errs []error
	for _, n := range r.Spec.Servers() {
		key, err := r.Distribution.Key(ctx, n.Name)
		if err == nil {
			return key, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
	}
	return secret.Value{}, fmt.Errorf("no server has the cluster's token: restore from a backup file, which has it: %w", errors.Join(errs...))
}
