package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/session"
)

// Backup writes a backup of the cluster.
func Backup(s *session.Session, ctx context.Context, f BackupFlags) error {
	if err := session.Lacks(s, "cluster:backup"); err != nil {
		return session.Invalid("%w", err)
	}
	keys := slices.Concat(s.Spec.K3s.Snapshots.Recipients, strings.FieldsFunc(f.Recipient, func(r rune) bool { return r == ',' || r == ' ' }))
	if len(keys) == 0 {
		return session.Invalid("%w", errors.New("who may decrypt the backup? write recipients: [age1…] under k3s.snapshots, if it has K3s, or add -recipient=age1…; age-keygen makes a pair of keys, "+
			"and the private one does not belong on this machine"))
	}
	to, err := backup.Recipients(keys...)
	if err != nil {
		return session.Invalid("%w", err)
	}
	path, err := destination(f.To, s.Spec.Name, time.Now())
	if err != nil {
		return session.Invalid("%w", err)
	}
	var m backup.Manifest
	var sum string
	size, err := writeWhole(path, func(w io.Writer) (err error) {
		m, sum, err = s.Cluster.Backup(ctx, w, to)
		return err
	})
	if err != nil {
		return err
	}
	if s.JSON {
		return console.Objects(s.Console, []any{map[string]any{"file": path, "size": size, "sha256": sum, "manifest": m}})
	}
	s.Printf("%s: %s, made on %s with %s, for %s.", path, bytesOf(size), m.Server, m.Program(), printable.Count(len(to), "recipient"))
	s.Printf("SHA-256 %s", sum)
	s.Printf("Next: homelab backup:verify -from=%s -identity=KEYFILE, where the private key is.", printable.Word(path))
	return nil
}

// destination is the file to write. A backup never replaces another.
func destination(to, cluster string, now time.Time) (string, error) {
	name := fmt.Sprintf("%s-%s.backup.age", cluster, now.UTC().Format("20060102-150405"))
	info, err := os.Stat(to)
	switch {
	case to == "":
		return name, nil
	case err == nil && info.IsDir():
		return filepath.Join(to, name), nil
	case err == nil:
		return "", fmt.Errorf("-to=%s: the file exists already, and is left as it is: name another, or a folder", to)
	case strings.HasSuffix(to, "/"):
		return "", fmt.Errorf("-to=%s: there is no such folder", to)
	}
	return to, nil
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, write func(io.Writer) error) (size int64, err error) {
	part := path + ".part"
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // of a run that was killed, or of one that writes now
		return 0, fmt.Errorf("%s exists: another backup is being written there, or was cut short; if not, delete it", part)
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	if err = errors.Join(write(out), out.Sync()); err == nil {
		var info fs.FileInfo
		if info, err = out.Stat(); err == nil {
			size = info.Size()
		}
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(part, path)
}

func bytesOf(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
