package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func scheduledBackups() kind { return kind{"postgresql.cnpg.io", "v1", "scheduledbackups"} }

func objectStores() kind { return kind{"barmancloud.cnpg.io", "v1", "objectstores"} }

// plugin is a database's entry of a plugin that archives its changes: name, and where to.
func (d database) plugin() (name, store, folder string) {
	list, _, _ := unstructured.NestedSlice(d.Object, "spec", "plugins")
	for _, p := range list {
		m, _ := p.(map[string]any)
		if m["enabled"] == false {
			continue
		}
		name, _ = m["name"].(string)
		store, _, _ = unstructured.NestedString(m, "parameters", "barmanObjectName")
		folder, _, _ = unstructured.NestedString(m, "parameters", "serverName")
	}
	return name, store, folder
}

// lacksPlugin says why the operator does nothing for a database: it finds plugins by a label of their Services
// in its own namespace.
func (d database) lacksPlugin(ctx context.Context) (bool, error) {
	name, _, _ := d.plugin()
	if name == "" {
		return false, nil
	}
	services, err := d.Client.CoreV1().Services(d.instance.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "cnpg.io/pluginName=" + name})
	if err != nil || len(services.Items) > 0 {
		return false, err
	}
	err = d.patchStatus(ctx, d.Unstructured, map[string]any{
		"phase":       "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
		"phaseReason": fmt.Sprintf("Unknown plugin: '%s'", name),
		"conditions":  object.Conditions(d.Unstructured, false, "Ready", "False", "ClusterIsNotReady", "Cluster Is Not Ready"),
	})
	return true, errors.Join(err, fmt.Errorf("database %s: there is no plugin %s yet", d.GetName(), name)) // so it looks again
}

// archive plays a server's first change that goes into its folder, which must be empty then. The folders of a
// store are those of the recovery windows in its status, as the plugin writes them.
func (d database) archive(ctx context.Context) error {
	_, store, folder := d.plugin()
	if store == "" || !object.IsTrue(d.Unstructured, "Ready") || object.IsTrue(d.Unstructured, "ContinuousArchiving") {
		return nil
	}
	o, err := d.Dynamic.Resource(objectStores().gvr()).Namespace(d.GetNamespace()).Get(ctx, store, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("object store of %s: %w", d.GetName(), err)
	}
	status, reason, message := "True", "ContinuousArchivingSuccess", "Continuous archiving is working"
	if _, used, _ := unstructured.NestedMap(o.Object, "status", "serverRecoveryWindow", folder); used {
		status, reason, message = "False", "ContinuousArchivingFailing", "unexpected failure invoking barman-cloud-wal-archive: exit status 1"
	}
	return d.patchStatus(ctx, d.Unstructured, map[string]any{"conditions": object.Conditions(d.Unstructured, false, "ContinuousArchiving", status, reason, message)})
}

// backUp plays the first backup of each schedule, which is due at once, where changes are archived.
func backUp(ctx context.Context, i *instance) error {
	list, err := all[unstructured.Unstructured](i, scheduledBackups())
	if err != nil {
		return err
	}
	for _, s := range list {
		d, err := one[unstructured.Unstructured](i, databases(), s.GetNamespace(), object.Text(s, "spec", "cluster", "name"))
		if err != nil {
			return err
		}
		if s.GetDeletionTimestamp() != nil || d == nil || object.Text(s, "status", "lastScheduleTime") != "" || !object.IsTrue(d, "ContinuousArchiving") {
			continue
		}
		if err := (database{i, d}).backUp(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (d database) backUp(ctx context.Context, s *unstructured.Unstructured) error {
	now := time.Now().UTC()
	backup := object.New("postgresql.cnpg.io/v1", "Backup", s.GetNamespace(), s.GetName()+"-"+now.Format("20060102150405"), map[string]any{
		"spec": map[string]any{"cluster": map[string]any{"name": d.GetName()}, "method": "plugin", "pluginConfiguration": map[string]any{"name": object.Text(s, "spec", "pluginConfiguration", "name")}}})
	object.OwnedBy(backup, s)
	if err := d.apply(ctx, backup); err != nil {
		return err
	}
	at := now.Format(time.RFC3339)
	if err := d.patchStatus(ctx, backup, map[string]any{"phase": "completed", "startedAt": at, "stoppedAt": at}); err != nil {
		return err
	}
	_, store, folder := d.plugin()
	o := object.New("barmancloud.cnpg.io/v1", "ObjectStore", d.GetNamespace(), store, nil)
	window := map[string]any{"firstRecoverabilityPoint": at, "lastSuccessfulBackupTime": at}
	if err := d.patchStatus(ctx, o, map[string]any{"serverRecoveryWindow": map[string]any{folder: window}}); err != nil {
		return err
	}
	return d.patchStatus(ctx, s, map[string]any{"lastScheduleTime": at, "lastCheckTime": at})
}

// bootstrap is how a database begins: empty, or from a backup.
func (d database) bootstrap(key string) string {
	return cmp.Or(object.Text(d.Unstructured, "spec", "bootstrap", "initdb", key), object.Text(d.Unstructured, "spec", "bootstrap", "recovery", key))
}
