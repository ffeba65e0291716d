package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/backup"
)

// Backup looks into backups.
type Backup mg.Namespace

// Verify proves that a backup is whole and that K3s can open it, and shows what is in it; it needs no cluster.
func (Backup) Verify(ctx context.Context,
	from *string, // FILE: the backup
	identity *string, // FILE: private keys of age, one of which decrypts the backup
	start *bool, // also start Kubernetes from the snapshot, on loopback of this machine, and have it read every object
	json *bool, // print data and events as lines of JSON
) error {
	return within(ctx, options(nil, json, nil), func(ctx context.Context, o session.Options) error {
		return backup.Verify(ctx, o, backup.VerifyFlags{SourceFlags: backup.SourceFlags{From: value(from), Identity: value(identity)}, Start: value(start)})
	})
}

// Backup writes a snapshot of etcd with all that a restore needs into one encrypted file.
func (Cluster) Backup(ctx context.Context,
	to *string, // FILE: where to write it; a folder gets a file with the time in its name; default: this folder
	recipient *string, // age1…,age1…: encrypt it to these public keys, too; default: k3s.snapshots.recipients of the file
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), backup.Backup, backup.BackupFlags{To: value(to), Recipient: value(recipient)})
}

// Restore brings Kubernetes back to a backup, or to a snapshot that a server has; pods keep running, and what was created since is lost.
func (Cluster) Restore(ctx context.Context,
	from *string, // FILE: the backup
	identity *string, // FILE: private keys of age, one of which decrypts the backup
	digest *string, // HEX: the backup's SHA-256, as cluster:backup printed it: take no other file
	snapshot *string, // NAME: restore this snapshot of a server, instead of a backup
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), backup.Restore, backup.RestoreFlags{
		SourceFlags: backup.SourceFlags{From: value(from), Identity: value(identity)}, ChangeFlags: changes(yes, nowait), Snapshot: value(snapshot), Digest: value(digest),
	})
}

// Certs shows when K3s' certificates end, and renews them with -rotate, on one node after the other.
func (Cluster) Certs(ctx context.Context,
	rotate *bool, // make new certificates, on one node after the other
	warn *int, // 90: end with exit code 2 if a certificate ends within this many days
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), backup.Certs, backup.CertsFlags{
		ChangeFlags: changes(yes, nowait), Rotate: value(rotate), Warn: value(warn),
	})
}
