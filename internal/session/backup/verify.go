package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
)

// Verify proves what can be proven of a backup without a machine.
func Verify(ctx context.Context, o session.Options, f VerifyFlags) error {
	open, err := opener(f.SourceFlags)
	if err != nil {
		return err
	}
	c, facts, err := inspect(ctx, open)
	if err != nil {
		return err
	}
	o.Console.Redact.Add(c.Token)
	out := map[string]any{"manifest": c.Manifest, "facts": facts, "made": maker(c)}
	if !o.JSON {
		describe(o.Console, c, facts, maker(c))
	}
	if lost := c.Differences(facts.Objects); len(lost) > 0 {
		return fmt.Errorf("the snapshot is not what the cluster had when it was backed up: %s: make another backup", strings.Join(lost, ", "))
	}
	last := "This proves that the file is whole, and that " + map[bool]string{true: "Kubernetes has the authorities of the snapshot", false: "K3s can decrypt what it needs"}[c.HasAuthorities()] + ". Whether Kubernetes works with it, -start shows, and a restore: docs/restore.md."
	if f.Start {
		has, err := startFromBackup(ctx, o, open, facts)
		if err != nil {
			return err
		}
		out["started"] = has
		if !o.JSON {
			describeStarted(o.Console, has, facts)
		}
		last = "Kubernetes has started from the snapshot and read all of it. How the programs of the cluster take going back, only a restore shows: docs/restore.md."
	}
	if o.JSON {
		return console.Objects(o.Console, []any{out})
	}
	o.Console.Printf("%s", last)
	return nil
}

// openBackup opens the backup's file again.
type openBackup func() (*backup.Reader, io.Closer, error)

// opener reads the identities, and returns what opens the file of -from.
func opener(f SourceFlags) (openBackup, error) {
	switch {
	case f.From == "":
		return nil, session.Invalid("%w", errors.New("which backup? write -from=FILE"))
	case f.Identity == "":
		return nil, session.Invalid("%w", errors.New("what decrypts it? write -identity=FILE, a file with a private key of age"))
	}
	keys, err := os.Open(f.Identity)
	if err != nil {
		return nil, session.Invalid("%w", err)
	}
	defer func() { _ = keys.Close() }()
	ids, err := backup.Identities(keys)
	if err != nil {
		return nil, session.Invalid("%w", fmt.Errorf("%s: %w", f.Identity, err))
	}
	return func() (*backup.Reader, io.Closer, error) { return open(f.From, ids) }, nil
}

func open(path string, ids []age.Identity) (*backup.Reader, io.Closer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := backup.Open(file, ids...)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, file, nil
}

// inspect reads a backup from its beginning to its end.
func inspect(ctx context.Context, open openBackup) (backup.Contents, *backup.Facts, error) {
	r, file, err := open()
	if err != nil {
		return backup.Contents{}, nil, err
	}
	defer func() { _ = file.Close() }()
	facts, err := backup.Inspect(ctx, r, r.Snapshot, r.Token)
	return r.Contents, facts, err
}

// describe says what is in a backup.
func describe(c *console.Console, is backup.Contents, facts *backup.Facts, maker string) {
	key := "not there: Secrets were not encrypted in etcd"
	if facts.SecretsKey {
		key = "there"
	}
	token := [2]string{"token", "decrypts the authorities, " + facts.Authority[:16] + "…"}
	if is.HasAuthorities() {
		token = [2]string{"authorities", "those of the snapshot, with their keys, " + facts.Authority[:16] + "…"}
	}
	for _, row := range [][2]string{
		{"backup", fmt.Sprintf("of %s, %s, on %s with %s", is.Cluster, is.Made.UTC().Format("2006-01-02 15:04:05 UTC"), is.Server, is.Program())},
		{"made by", maker},
		{"file", "whole: decrypted to its end, and all digests match"},
		{"snapshot", fmt.Sprintf("%s: %s, revision %d, %d keys; its checksum and its pages are right", is.Snapshot, bytesOf(facts.Size), facts.Revision, facts.Keys)},
		token,
		{"key of Secrets", key},
		{"nodes", shortList(facts.Nodes)},
		{"namespaces", shortList(facts.Namespaces)},
		{"objects", objects(is, facts)},
	} {
		c.Printf("%-15s %s", row[0], row[1])
	}
}

// objects says what was counted when the backup was made, and is in the snapshot.
func objects(is backup.Contents, facts *backup.Facts) string {
	if len(is.Objects) == 0 {
		return "not counted when it was made"
	}
	if lost := is.Differences(facts.Objects); len(lost) > 0 {
		return "other than counted when it was made: " + strings.Join(lost, ", ")
	}
	var out []string
	for _, k := range backup.Kinds() {
		if n := is.Objects[k.Resource]; n > 0 {
			out = append(out, printable.Count(n, k.Kind))
		}
	}
	return "as counted when it was made: " + strings.Join(out, ", ")
}

func shortList(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
