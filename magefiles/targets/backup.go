package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/backup"
)

// ClusterBackupOptions are the options of [ClusterBackup].
type ClusterBackupOptions struct {
	FileOptions
	backup.BackupFlags
	OutputOptions
	LimitOptions
}

// ClusterBackup is cluster:backup.
func ClusterBackup(ctx context.Context, o ClusterBackupOptions) error {
	return withFlags(ctx, settings(o.FileOptions, o.OutputOptions, o.LimitOptions), backup.Backup, o.BackupFlags)
}

// ClusterRestoreOptions are the options of [ClusterRestore].
type ClusterRestoreOptions struct {
	FileOptions
	backup.RestoreFlags
	OutputOptions
	LimitOptions
}

// ClusterRestore is cluster:restore.
func ClusterRestore(ctx context.Context, o ClusterRestoreOptions) error {
	return withFlags(ctx, settings(o.FileOptions, o.OutputOptions, o.LimitOptions), backup.Restore, o.RestoreFlags)
}

// ClusterCertsOptions are the options of [ClusterCerts].
type ClusterCertsOptions struct {
	FileOptions
	backup.CertsFlags
	OutputOptions
	LimitOptions
}

// ClusterCerts is cluster:certs.
func ClusterCerts(ctx context.Context, o ClusterCertsOptions) error {
	return withFlags(ctx, settings(o.FileOptions, o.OutputOptions, o.LimitOptions), backup.Certs, o.CertsFlags)
}

// BackupVerifyOptions are the options of [BackupVerify].
type BackupVerifyOptions struct {
	backup.VerifyFlags
	OutputOptions
}

// BackupVerify is backup:verify.
func BackupVerify(ctx context.Context, o BackupVerifyOptions) error {
	return within(ctx, settings(o.OutputOptions), func(ctx context.Context, s session.Options) error { return backup.Verify(ctx, s, o.VerifyFlags) })
}
