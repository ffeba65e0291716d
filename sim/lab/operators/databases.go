package operators

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

func databases() kind { return kind{"postgresql.cnpg.io", "v1", "clusters"} }
func pods() kind      { return kind{"", "v1", "pods"} }

const postgresImage = "ghcr.io/cloudnative-pg/postgresql:18.4-system-trixie" // CloudNativePG's default at 1.30.0

func databasePrograms() []program {
	return []program{{name: "cloudnative-pg", image: "cloudnative-pg/cloudnative-pg", watch: []kind{databases(), pods(), claims(), scheduledBackups()}, sync: cloudNativePG}}
}

// cloudNativePG plays the operator: what it creates, and names of it, are those of v1.30.0 (internal/controller,
// pkg/specs). Its servers hold no data, and no replica takes over.
func cloudNativePG(ctx context.Context, i *instance) (time.Duration, error) {
	list, err := all[unstructured.Unstructured](i, databases())
	if err != nil {
		return 0, err
	}
	for _, o := range list {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := (database{i, o}).reconcile(ctx); err != nil {
			return 0, err
		}
	}
	return 0, backUp(ctx, i)
}

type database struct {
	*instance
	*unstructured.Unstructured
}

func (d database) labels(more map[string]any) map[string]any {
	out := map[string]any{"cnpg.io/cluster": d.GetName(), "app.kubernetes.io/name": "postgresql", "app.kubernetes.io/instance": d.GetName(),
		"app.kubernetes.io/component": "database", "app.kubernetes.io/managed-by": "cloudnative-pg"}
	maps.Copy(out, more)
	return out
}

func (d database) owned(apiVersion, kind, name string, body map[string]any) *unstructured.Unstructured {
	o := object.New(apiVersion, kind, d.GetNamespace(), name, body)
	object.OwnedBy(o, d.Unstructured)
	return o
}

func (d database) reconcile(ctx context.Context) error {
	if lacks, err := d.lacksPlugin(ctx); lacks || err != nil {
		return err
	}
	if err := d.login(ctx); err != nil {
		return err
	}
	for name, to := range map[string]map[string]any{
		"rw": {"cnpg.io/instanceRole": "primary"}, "ro": {"cnpg.io/instanceRole": "replica"}, "r": {"cnpg.io/podRole": "instance"},
	} {
		to["cnpg.io/cluster"] = d.GetName()
		err := d.apply(ctx, d.owned("v1", "Service", d.GetName()+"-"+name, map[string]any{"metadata": map[string]any{"labels": d.labels(nil)},
			"spec": map[string]any{"type": "ClusterIP", "selector": to, "ports": []any{map[string]any{"name": "postgres", "port": 5432, "targetPort": 5432, "protocol": "TCP"}}}}))
		if err != nil {
			return err
		}
	}
	want, _, _ := unstructured.NestedInt64(d.Object, "spec", "instances")
	ready := int64(0)
	for n := int64(1); n <= want; n++ { // a replica copies the first server
		up, err := d.server(ctx, int(n))
		if err != nil {
			return err
		}
		if !up {
			break
		}
		ready++
	}
	if err := d.fewer(ctx, int(want)); err != nil {
		return err
	}
	if err := d.report(ctx, want, ready); err != nil {
		return err
	}
	return d.archive(ctx)
}

// fewer deletes servers that are no longer wanted, with their volumes: they are copies.
func (d database) fewer(ctx context.Context, want int) error {
	list, err := all[unstructured.Unstructured](d.instance, pods())
	if err != nil {
		return err
	}
	for _, p := range list {
		serial, _ := strconv.Atoi(p.GetAnnotations()["cnpg.io/nodeSerial"])
		if p.GetNamespace() != d.GetNamespace() || p.GetLabels()["cnpg.io/cluster"] != d.GetName() || serial <= want {
			continue
		}
		core := d.Client.CoreV1()
		for _, del := range []func(context.Context, string, metav1.DeleteOptions) error{core.Pods(d.GetNamespace()).Delete, core.PersistentVolumeClaims(d.GetNamespace()).Delete} {
			if err := del(ctx, p.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("server %s: %w", p.GetName(), err)
			}
		}
	}
	return nil
}

// server makes a server and its volume, and reports whether it is ready.
func (d database) server(ctx context.Context, serial int) (bool, error) {
	name, role := fmt.Sprintf("%s-%d", d.GetName(), serial), "replica"
	if serial == 1 {
		role = "primary"
	}
	labels := d.labels(map[string]any{"cnpg.io/instanceName": name, "cnpg.io/instanceRole": role})
	notes := map[string]any{"cnpg.io/nodeSerial": strconv.Itoa(serial)}
	claim := map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": object.Text(d.Unstructured, "spec", "storage", "size")}}}
	if class := object.Text(d.Unstructured, "spec", "storage", "storageClass"); class != "" {
		claim["storageClassName"] = class
	}
	volume := d.owned("v1", "PersistentVolumeClaim", name, map[string]any{"metadata": map[string]any{"labels": labels, "annotations": notes}, "spec": claim})
	if err := d.apply(ctx, volume); err != nil {
		return false, err
	}
	have, err := one[corev1.Pod](d.instance, pods(), d.GetNamespace(), name)
	if err != nil {
		return false, err
	}
	if have != nil {
		return traffic.Ready(have), nil
	}
	labels["cnpg.io/podRole"] = "instance"
	return false, d.apply(ctx, d.owned("v1", "Pod", name, map[string]any{"metadata": map[string]any{"labels": labels, "annotations": notes}, "spec": d.pod(name)}))
}

func (d database) pod(name string) map[string]any {
	tolerations, _, _ := unstructured.NestedSlice(d.Object, "spec", "affinity", "tolerations")
	return map[string]any{
		"tolerations": tolerations,
		"affinity": map[string]any{"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
			"labelSelector": map[string]any{"matchLabels": map[string]any{"cnpg.io/cluster": d.GetName(), "cnpg.io/podRole": "instance"}},
			"topologyKey":   object.Text(d.Unstructured, "spec", "affinity", "topologyKey"),
		}}}},
		"containers": []any{map[string]any{"name": "postgres", "image": postgresImage, "command": []any{"/controller/manager", "instance", "run"},
			"ports":        []any{map[string]any{"name": "postgresql", "containerPort": 5432}, map[string]any{"name": "metrics", "containerPort": 9187}},
			"volumeMounts": []any{map[string]any{"name": "pgdata", "mountPath": "/var/lib/postgresql/data"}}}},
		"volumes": []any{map[string]any{"name": "pgdata", "persistentVolumeClaim": map[string]any{"claimName": name}}},
	}
}

// login makes the Secret of the database's owner, once (pkg/specs/secrets.go).
func (d database) login(ctx context.Context) error {
	name, namespace := d.GetName()+"-app", d.GetNamespace()
	if _, err := d.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
		return nil
	}
	user, base, password := d.bootstrap("owner"), d.bootstrap("database"), rand.Text()
	host := d.GetName() + "-rw"
	data := map[string]any{"username": user, "user": user, "password": password, "dbname": base, "host": host, "port": "5432",
		"pgpass": fmt.Sprintf("%s:5432:%s:%s:%s\n", host, base, user, password)}
	for prefix, at := range map[string]string{"": host + "." + namespace + ":5432", "fqdn-": host + "." + namespace + ".svc.cluster.local:5432"} {
		data[prefix+"uri"] = (&url.URL{Scheme: "postgresql", User: url.UserPassword(user, password), Host: at, Path: base}).String()
		data[prefix+"jdbc-uri"] = (&url.URL{Scheme: "jdbc:postgresql", Host: at, Path: base, RawQuery: url.Values{"user": {user}, "password": {password}}.Encode()}).String()
	}
	return d.apply(ctx, d.owned("v1", "Secret", name, map[string]any{"type": "kubernetes.io/basic-auth", "stringData": data,
		"metadata": map[string]any{"labels": map[string]any{"cnpg.io/userType": "app", "cnpg.io/reload": "true", "app.kubernetes.io/managed-by": "cloudnative-pg"}}}))
}

func (d database) report(ctx context.Context, want, ready int64) error {
	phase, status, reason, message := "Setting up primary", "False", "ClusterIsNotReady", "Cluster Is Not Ready"
	switch {
	case ready == want:
		phase, status, reason, message = "Cluster in healthy state", "True", "ClusterIsReady", "Cluster is Ready"
	case ready > 0:
		phase = "Creating a new replica"
	}
	change := map[string]any{"instances": want, "readyInstances": ready, "phase": phase, "conditions": object.Conditions(d.Unstructured, false, "Ready", status, reason, message)}
	if ready > 0 {
		change["currentPrimary"] = d.GetName() + "-1"
	}
	return d.patchStatus(ctx, d.Unstructured, change)
}
