package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/backup"
	"github.com/cps-gpu/homelab/internal/session/examine"
	"github.com/cps-gpu/homelab/internal/session/report"
)

// ClusterValidateOptions are the options of [ClusterValidate].
type ClusterValidateOptions struct{ FileOptions }

// ClusterValidate is cluster:validate.
func ClusterValidate(ctx context.Context, o ClusterValidateOptions) error {
	return withOptions(ctx, settings(o), func(ctx context.Context, o session.Options) error {
		s, err := session.Load(o)
		if err != nil {
			return err
		}
		return session.Validate(s, ctx)
	})
}

// ClusterPlanOptions are the options of [ClusterPlan].
type ClusterPlanOptions struct {
	FileOptions
	session.ChartFlags
	OutputOptions
	LimitOptions
}

// ClusterPlan is cluster:plan. Its [Error] has the code 2 if there is something to change.
func ClusterPlan(ctx context.Context, o ClusterPlanOptions) error {
	s := settings(o)
	s.Start = true
	return withSession(ctx, s, session.Plan)
}

// ClusterUpOptions are the options of [ClusterUp].
type ClusterUpOptions struct {
	FileOptions
	session.ChartFlags
	session.UpFlags
	OutputOptions
	LimitOptions
	ReportOptions
}

// ClusterUp is cluster:up.
func ClusterUp(ctx context.Context, o ClusterUpOptions) error {
	s := settings(o)
	s.Start, s.MakeKey = true, true
	return withReport(ctx, s, "cluster:up", session.Up, o.UpFlags)
}

// ClusterStatusOptions are the options of [ClusterStatus].
type ClusterStatusOptions struct {
	FileOptions
	session.ChartFlags
	OutputOptions
	ReportOptions
}

// ClusterStatus is cluster:status.
func ClusterStatus(ctx context.Context, o ClusterStatusOptions) error {
	return withReport(ctx, settings(o), "cluster:status", func(s *session.Session, ctx context.Context, _ struct{}) error { return session.Status(s, ctx) }, struct{}{})
}

// ClusterWatchOptions are the options of [ClusterWatch].
type ClusterWatchOptions struct {
	FileOptions
	session.ChartFlags
	session.WatchFlags
}

// ClusterWatch is cluster:watch.
func ClusterWatch(ctx context.Context, o ClusterWatchOptions) error {
	return withSessionFlags(ctx, settings(o), report.Watch, o.WatchFlags)
}

// ClusterDoctorOptions are the options of [ClusterDoctor].
type ClusterDoctorOptions struct {
	FileOptions
	OutputOptions
	LimitOptions
}

// ClusterDoctor is cluster:doctor.
func ClusterDoctor(ctx context.Context, o ClusterDoctorOptions) error {
	s := settings(o)
	s.Without = true
	return withSession(ctx, s, examine.Doctor)
}

// ClusterConformanceOptions are the options of [ClusterConformance].
type ClusterConformanceOptions struct {
	FileOptions
	examine.ConformanceFlags
	OutputOptions
	LimitOptions
}

// ClusterConformance is cluster:conformance.
func ClusterConformance(ctx context.Context, o ClusterConformanceOptions) error {
	return withSessionFlags(ctx, settings(o), examine.Conformance, o.ConformanceFlags)
}

// ClusterSupportOptions are the options of [ClusterSupport].
type ClusterSupportOptions struct {
	FileOptions
	examine.SupportFlags
	LimitOptions
}

// ClusterSupport is cluster:support.
func ClusterSupport(ctx context.Context, o ClusterSupportOptions) error {
	s := settings(o)
	s.Without = true
	return withSessionFlags(ctx, s, examine.Support, o.SupportFlags)
}

// ClusterDownOptions are the options of [ClusterDown].
type ClusterDownOptions struct {
	FileOptions
	session.DownFlags
	OutputOptions
}

// ClusterDown is cluster:down.
func ClusterDown(ctx context.Context, o ClusterDownOptions) error {
	return withSessionFlags(ctx, settings(o), session.Down, o.DownFlags)
}

// ClusterKubeconfigOptions are the options of [ClusterKubeconfig].
type ClusterKubeconfigOptions struct{ FileOptions }

// ClusterKubeconfig is cluster:kubeconfig.
func ClusterKubeconfig(ctx context.Context, o ClusterKubeconfigOptions) error {
	return withSession(ctx, settings(o), session.Kubeconfig)
}

// ClusterInitOptions are the options of [ClusterInit].
type ClusterInitOptions struct{ session.InitFlags }

// ClusterInit is cluster:init.
func ClusterInit(ctx context.Context, o ClusterInitOptions) error {
	return withOptions(ctx, settings(o),
		func(ctx context.Context, s session.Options) error { return session.Init(ctx, s.Console, o.InitFlags) })
}

// ClusterImportOptions are the options of [ClusterImport].
type ClusterImportOptions struct{ session.ImportFlags }

// ClusterImport is cluster:import.
func ClusterImport(ctx context.Context, o ClusterImportOptions) error {
	return withOptions(ctx, settings(o),
		func(ctx context.Context, s session.Options) error {
			return session.Import(ctx, s.Console, o.ImportFlags)
		})
}

// ClusterBackupOptions are the options of [ClusterBackup].
type ClusterBackupOptions struct {
	FileOptions
	backup.BackupFlags
	OutputOptions
	LimitOptions
}

// ClusterBackup is cluster:backup.
func ClusterBackup(ctx context.Context, o ClusterBackupOptions) error {
	return withSessionFlags(ctx, settings(o), backup.Backup, o.BackupFlags)
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
	return withSessionFlags(ctx, settings(o), backup.Restore, o.RestoreFlags)
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
	return withSessionFlags(ctx, settings(o), backup.Certs, o.CertsFlags)
}

// BackupVerifyOptions are the options of [BackupVerify].
type BackupVerifyOptions struct {
	backup.VerifyFlags
	OutputOptions
}

// BackupVerify is backup:verify.
func BackupVerify(ctx context.Context, o BackupVerifyOptions) error {
	return withOptionsFlags(ctx, settings(o), backup.Verify, o.VerifyFlags)
}
