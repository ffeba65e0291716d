package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
)

// Names of CloudNativePG's (cloudnative-pg/cloudnative-pg, v1.30.0: api/v1, pkg/utils/labels_annotations.go).
const (
	PostgresName      = "postgres"
	postgresNamespace = "cnpg-system"
	PostgresAPI       = "postgresql.cnpg.io/v1"
	PostgresKind      = "Cluster"         // a database's servers
	PostgresLabel     = "cnpg.io/cluster" // of pods and claims: the name of their Cluster
)

// postgresImage is what the operator runs for a database (DefaultImageName, pkg/versions/versions.go of
// v1.30.0); its chart does not name it.
const postgresImage = "ghcr.io/cloudnative-pg/postgresql:18.4-system-trixie"

// Postgres provides CloudNativePG and the databases of the file. It removes a database's claims with the
// database, so the operator stays while there is one.
type Postgres struct {
	*spec.Postgres
	Store   *spec.Backup // where backups go
	Gateway bool         // the gateway of models has a database of its own
}

func (p Postgres) Info() Info {
	return Info{
		Name: PostgresName, Section: "postgres", On: p.Postgres != nil || p.Gateway, Namespace: postgresNamespace,
		NeverInFleet: "it would delete the data of a database that left the file without asking",
		Chart: chart.Pin{
			Chart: "cloudnative-pg", Repo: "https://cloudnative-pg.github.io/charts",
			Version: "0.29.0", App: "1.30.0", Kubernetes: ">=1.29.0-0", Compared: "2026-11-29",
			Source: "pinned and read: tag cloudnative-pg-v0.29.0 of 2026-06-29, values.yaml and templates; operator: v1.30.0; digest: index.yaml of its branch gh-pages",
			Digest: "sha256:668e065ff53508d58238788fd35b355a925060843629a951df0e6a9362e6d32f",
		},
	}
}

func (p Postgres) Make(s *Site) (Recipe, error) {
	v := values{"fullnameOverride": "cloudnative-pg"}
	s.tolerate(v, nil)
	r := Recipe{
		Settle:   15 * time.Minute, // it downloads an image, and replicas copy the first server
		Operands: []string{postgresImage},
		Part:     chart.Part{Name: PostgresName, Release: s.release(p.Info(), v), Keep: true},
	}
	if p.Postgres == nil {
		return r, nil
	}
	var namespaces []string
	for _, d := range p.Databases {
		if !slices.Contains(namespaces, d.Namespace) {
			namespaces = append(namespaces, d.Namespace)
			r.Before = append(r.Before, namespaceObject(d.Namespace, nil)) // a Secret comes before the release
		}
	}
	if p.Backup {
		if err := p.addStores(s, &r, namespaces); err != nil {
			return Recipe{}, err
		}
	}
	for _, d := range p.Databases {
		r.After = append(r.After, database{d, p.Backup}.object(s))
		if p.Backup {
			r.After = append(r.After, p.scheduledBackup(d))
		}
		r.Verify = append(r.Verify, verify.Check{Name: "database " + d.Name + " answers", Try: database{d, p.Backup}.answers})
		r.Passwords = append(r.Passwords, Password{fmt.Sprintf("user %s of the database %s", d.Name, d.Name), d.Namespace, d.Name + "-app", "password"})
		s.requireParts(&r, s.Provider(cmp.Or(d.StorageClass, s.DefaultClass)))
	}
	if s.Has("monitoring") && len(namespaces) > 0 {
		r.After = append(r.After, databaseMetrics(namespaces))
		if p.Backup {
			r.After = append(r.After, rulesOf(PostgresName, postgresNamespace, databaseRules()))
		}
		s.requireParts(&r, "monitoring")
	}
	return r, nil
}

type database struct {
	spec.Database
	backedUp bool
}

func (d database) object(s *Site) runtime.Object {
	storage := values{"size": resource.NewQuantity(int64(d.Size), resource.BinarySI).String()}
	if d.StorageClass != "" {
		storage["storageClass"] = d.StorageClass
	}
	apart := values{"enablePodAntiAffinity": true, "topologyKey": corev1.LabelHostname, "podAntiAffinityType": "required"}
	if list := s.tolerations(); len(list) > 0 {
		apart["tolerations"] = list
	}
	v := values{
		"instances": int64(d.Instances),
		"storage":   storage,
		"affinity":  apart,
		"bootstrap": values{"initdb": values{"database": d.Name, "owner": d.Name}},
		// Nothing can take over from a single server: its budget would block every drain of its node.
		"enablePDB": d.Instances > 1,
	}
	if d.backedUp {
		d.archive(v)
	}
	return object(PostgresAPI, PostgresKind, meta(PostgresName, d.Namespace, d.Name), v)
}

// answers has its owner ask the database from a pod beside it, as programs do. Its address has the password.
func (d database) answers(ctx context.Context, c verify.Cluster) (string, error) {
	if why, ok, err := c.Kube.Ready(ctx, object(PostgresAPI, PostgresKind, meta(PostgresName, d.Namespace, d.Name), nil)); err != nil || !ok {
		return "", cmp.Or(err, errors.New(why))
	}
	pod := c.Pod(d.Namespace, "database-"+d.Name, `psql "$URI" --no-psqlrc --command='select 1'`, secretVariable("URI", d.Name+"-app", "uri"))
	pod.Spec.Containers[0].Image = postgresImage
	err := c.WithObject(ctx, pod, func(ctx context.Context) error {
		_, err := c.Ends(ctx, pod)
		return err
	})
	return "asked by its owner, from namespace " + d.Namespace, err
}

// databaseMetrics are read from each server. The operator's own switch for that is deprecated.
func databaseMetrics(namespaces []string) runtime.Object {
	return object("monitoring.coreos.com/v1", "PodMonitor", meta(PostgresName, postgresNamespace, "databases"), values{
		"namespaceSelector":   values{"matchNames": namespaces},
		"selector":            values{"matchLabels": values{"cnpg.io/podRole": "instance"}},
		"podMetricsEndpoints": []any{values{"port": "metrics"}},
	})
}
