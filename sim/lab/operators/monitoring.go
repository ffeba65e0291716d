package operators

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

func prometheuses() kind  { return kind{"monitoring.coreos.com", "v1", "prometheuses"} }
func alertmanagers() kind { return kind{"monitoring.coreos.com", "v1", "alertmanagers"} }
func statefulSets() kind  { return kind{"apps", "v1", "statefulsets"} }
func backupPlaces() kind  { return kind{"velero.io", "v1", "backupstoragelocations"} }

func monitoringPrograms() []program {
	return []program{
		{name: "prometheus-operator", image: "prometheus-operator/prometheus-operator", watch: []kind{prometheuses(), alertmanagers(), statefulSets()}, sync: prometheusOperator},
		{name: "velero", image: "velero/velero", is: func(c corev1.Container) bool { return hasArgument(c, "server") && !hasArgument(c, "node-agent") },
			watch: []kind{backupPlaces()}, sync: velero},
	}
}

// prometheusOperator creates a StatefulSet for each Prometheus and Alertmanager, and reports
// whether its pods run.
func prometheusOperator(ctx context.Context, i *instance) (time.Duration, error) {
	for name, k := range map[string]kind{"prometheus": prometheuses(), "alertmanager": alertmanagers()} {
		list, err := all[unstructured.Unstructured](i, k)
		if err != nil {
			return 0, err
		}
		for _, o := range list {
			if err := i.monitor(ctx, name, o); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

func (i *instance) monitor(ctx context.Context, name string, o *unstructured.Unstructured) error {
	set := name + "-" + o.GetName()
	if err := i.apply(ctx, monitorSet(name, set, o), monitorService(name, o)); err != nil {
		return err
	}
	have, err := one[unstructured.Unstructured](i, statefulSets(), o.GetNamespace(), set)
	if err != nil || have == nil {
		return err
	}
	want, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	up, _, _ := unstructured.NestedInt64(have.Object, "status", "readyReplicas")
	status, reason := "True", ""
	if up < max(1, want) {
		status, reason = "False", "NoPodReady"
	}
	list := object.Conditions(o, true, "Available", status, reason, "")
	both := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": o.GetGeneration()}, "status": map[string]any{"conditions": list}}}
	return i.patchStatus(ctx, o, map[string]any{
		"paused": false, "replicas": max(1, want), "availableReplicas": up, "updatedReplicas": up, "unavailableReplicas": max(1, want) - up,
		"conditions": object.Conditions(both, true, "Reconciled", "True", "", ""),
	})
}

func monitorSet(name, set string, o *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := o.Object["spec"].(map[string]any)
	labels := map[string]any{"app.kubernetes.io/name": name, "operator.prometheus.io/name": o.GetName(), name: o.GetName(), "app.kubernetes.io/instance": o.GetName()}
	volume := set + "-db"
	ports := map[string]int{"prometheus": 9090, "alertmanager": 9093}
	pod := map[string]any{
		"tolerations": spec["tolerations"], "nodeSelector": spec["nodeSelector"], "affinity": spec["affinity"],
		"containers": []any{map[string]any{
			"name": name, "image": spec["image"], "resources": spec["resources"],
			"ports": []any{map[string]any{"name": "http-web", "containerPort": ports[name]}}, "volumeMounts": []any{map[string]any{"name": volume, "mountPath": "/" + name}},
		}},
	}
	if account := object.Text(o, "spec", "serviceAccountName"); account != "" {
		pod["serviceAccountName"] = account
	}
	replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	body := map[string]any{
		"serviceName": name + "-operated", "replicas": max(1, replicas), "podManagementPolicy": "Parallel",
		"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
	}
	claim, _, _ := unstructured.NestedMap(o.Object, "spec", "storage", "volumeClaimTemplate", "spec")
	if claim == nil {
		pod["volumes"] = []any{map[string]any{"name": volume, "emptyDir": map[string]any{}}}
	} else {
		body["volumeClaimTemplates"] = []any{map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": volume}, "spec": claim}}
	}
	for _, m := range []map[string]any{pod, pod["containers"].([]any)[0].(map[string]any)} {
		for key, value := range m {
			if value == nil {
				delete(m, key)
			}
		}
	}
	obj := object.New("apps/v1", "StatefulSet", o.GetNamespace(), set, map[string]any{"spec": body})
	object.OwnedBy(obj, o)
	return obj
}

func monitorService(name string, o *unstructured.Unstructured) *unstructured.Unstructured {
	obj := object.New("v1", "Service", o.GetNamespace(), name+"-operated", map[string]any{"spec": map[string]any{
		"clusterIP": "None", "selector": map[string]any{"app.kubernetes.io/name": name}, "ports": []any{map[string]any{"name": "http-web", "port": 9090, "targetPort": "http-web"}},
	}})
	object.OwnedBy(obj, o)
	return obj
}

// velero sets the status of each backup location. The lab has no object store: any location
// with credentials is available.
func velero(ctx context.Context, i *instance) (time.Duration, error) {
	list, err := all[unstructured.Unstructured](i, backupPlaces())
	if err != nil {
		return 0, err
	}
	for _, o := range list {
		if o.GetNamespace() != i.pod.Namespace {
			continue
		}
		phase, message := "Available", ""
		if name := object.Text(o, "spec", "credential", "name"); name != "" {
			_, err := i.Client.CoreV1().Secrets(o.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				phase, message = "Unavailable", "unable to get credentials: unable to get key for secret: "+err.Error()
			}
		}
		if object.Text(o, "status", "phase") == phase {
			continue
		}
		// Velero's kinds have no status of their own to write to.
		change := map[string]any{"status": map[string]any{"phase": phase, "message": message, "lastValidationTime": metav1.Now().UTC().Format(time.RFC3339)}}
		if err := i.patch(ctx, o, change); err != nil {
			return 0, err
		}
		if err := i.patch(ctx, o, change, "status"); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
