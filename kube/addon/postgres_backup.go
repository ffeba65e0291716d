package addon

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

// Names of the plugin's (cloudnative-pg/plugin-barman-cloud, v0.13.0: api/v1, internal/cnpgi/metadata).
const (
	PostgresBackupName = "postgres-backup"
	PostgresPlugin     = "barman-cloud.cloudnative-pg.io"
	databaseStore      = "database-backups" // an ObjectStore and its Secret, in each namespace with databases
)

// PostgresBackup provides the plugin by which CloudNativePG writes backups, and the log of changes, into a bucket.
// It comes before [Postgres]: the operator does nothing for a database whose plugin it does not find.
type PostgresBackup struct {
	*spec.Postgres
	Store *spec.Backup
}

func (p PostgresBackup) Info() Info {
	i := Info{
		Name: PostgresBackupName, Section: "postgres.backup", On: p.Postgres != nil && p.Backup, Namespace: postgresNamespace,
		NeverInFleet: "databases depend on it, and Fleet deploys none",
		Chart: chart.Pin{
			Chart: "plugin-barman-cloud", Repo: "https://cloudnative-pg.github.io/charts",
			Version: "0.7.0", App: "v0.13.0", Kubernetes: ">=1.29.0-0", Compared: "2026-11-29",
			Source: "pinned and read: plugin-barman-cloud 0.7.0 of 2026-07-15, values.yaml and templates; plugin: v0.13.0; digest: index.yaml of its branch gh-pages",
			Digest: "sha256:683494c04cc94f7d33c4ac5f3d8d64c209634b48bd0e84da31d7d1fad22cdcdb",
		},
	}
	if i.On && p.Store != nil {
		i.Stays = "backups of databases in the bucket " + p.Store.Bucket
	}
	return i
}

func (p PostgresBackup) Make(s *Site) (Recipe, error) {
	v := values{"fullnameOverride": "barman-cloud"}
	s.tolerate(v, nil)
	r := Recipe{TriedBy: PostgresName, Part: chart.Part{Name: PostgresBackupName, Release: s.release(p.Info(), v), Keep: true}} // its definition, and with it where backups are
	s.requireParts(&r, "cert-manager")                                                                                          // operator and plugin know each other by its certificates
	return r, nil
}

// addStores adds the bucket, and its keys, to each namespace with databases.
func (p Postgres) addStores(s *Site, r *Recipe, namespaces []string) error {
	if p.Store == nil {
		return errors.New("postgres: there is no backup section that says where backups go")
	}
	s.requireParts(r, PostgresBackupName)
	access, err := s.Secret("backup.accessKey", p.Store.AccessKey)
	key, keyErr := s.Secret("backup.secretKey", p.Store.SecretKey)
	ca, caErr := File("backup.ca", p.Store.CAFile)
	if err := errors.Join(err, keyErr, caErr); err != nil {
		return err
	}
	data := map[string]secret.Value{"accessKey": access, "secretKey": key, "region": secret.New(p.Store.Region)}
	if len(ca) > 0 {
		data["ca.crt"] = secret.New(string(ca))
	}
	for _, namespace := range namespaces {
		r.Secrets = append(r.Secrets, chart.Secret{Namespace: namespace, Name: databaseStore, Data: data})
		r.After = append(r.After, object("barmancloud.cnpg.io/v1", "ObjectStore", meta(PostgresName, namespace, databaseStore), p.store(len(ca) > 0)))
	}
	return nil
}

func (p Postgres) store(ca bool) values {
	of := func(key string) values { return values{"name": databaseStore, "key": key} }
	config := values{
		// Beside the folder that Velero has: it refuses a folder with something else in it.
		"destinationPath": fmt.Sprintf("s3://%s/%s-databases", p.Store.Bucket, p.Store.Prefix),
		"s3Credentials":   values{"accessKeyId": of("accessKey"), "secretAccessKey": of("secretKey"), "region": of("region")},
		"wal":             values{"compression": "gzip"},
		"data":            values{"compression": "gzip"},
	}
	v := values{"configuration": config, "retentionPolicy": fmt.Sprintf("%dd", (p.Store.Retention+24*time.Hour-1)/(24*time.Hour))}
	if ca {
		config["endpointCA"] = of("ca.crt")
	}
	if p.Store.Endpoint != "" {
		config["endpointURL"] = p.Store.Endpoint
		// Stores other than AWS refuse the checksums that AWS' SDK has added since 2025.
		v["instanceSidecarConfiguration"] = values{"env": []any{
			values{"name": "AWS_REQUEST_CHECKSUM_CALCULATION", "value": "when_required"},
			values{"name": "AWS_RESPONSE_CHECKSUM_VALIDATION", "value": "when_required"},
		}}
	}
	return v
}

// scheduledBackup copies a database at once and at each time of the schedule.
func (p Postgres) scheduledBackup(d spec.Database) runtime.Object {
	return object(PostgresAPI, "ScheduledBackup", meta(PostgresName, d.Namespace, d.Name), values{
		"schedule":  "0 " + p.Store.Schedule, // it begins with the second
		"immediate": true,
		"cluster":   values{"name": d.Name},
		"method":    "plugin", "pluginConfiguration": values{"name": PostgresPlugin},
		"backupOwnerReference": "self",
	})
}

// archive makes a database write its changes into its folder, and begin with a backup if the file says so.
func (d database) archive(v values) {
	from := func(folder string) values { return values{"barmanObjectName": databaseStore, "serverName": folder} }
	v["plugins"] = []any{values{"name": PostgresPlugin, "isWALArchiver": true, "parameters": from(cmp.Or(d.Archive, d.Name))}}
	if d.Restore == nil {
		return
	}
	recovery := values{"source": "backup", "database": d.Name, "owner": d.Name} // whose password is a new one
	if d.Restore.At != "" {
		recovery["recoveryTarget"] = values{"targetTime": d.Restore.At}
	}
	v["bootstrap"] = values{"recovery": recovery}
	v["externalClusters"] = []any{values{"name": "backup", "plugin": values{"name": PostgresPlugin, "parameters": from(d.Restore.Archive)}}}
}
