package plane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// api makes requests of one control plane.
type api struct {
	client *http.Client
}

func apiOf(t *testing.T, kubeconfig []byte, dial func(context.Context) (net.Conn, error)) api {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	return api{&http.Client{Transport: transport}}
}

// do returns an answer without what differs each time.
func (a api) do(t *testing.T, method, path, accept, contentType, body string) (int, any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+vip+":6443"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", contentType)
	resp, err := a.client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var out []any
	for line := range bytes.Lines(b) {
		var v any
		require.NoError(t, json.Unmarshal(line, &v), string(line))
		out = append(out, plain(v, ""))
	}
	if len(out) == 1 {
		return resp.StatusCode, out[0]
	}
	return resp.StatusCode, out
}

var chance = regexp.MustCompile(`(-)[a-z0-9]{5}\b|\b[a-f0-9]{8}-[-a-f0-9]{27}\b|\b[0-9]+m?s\b|\b10\.43\.\d+\.\d+\b|\b3[0-2]\d{3}\b|-[a-z0-9]{8,10}\b|-hash=[a-z0-9]+|\b20\d\d-[-:TZ0-9]+`)

// plain replaces what is given by chance, and by the clock.
func plain(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch k {
			case "managedFields", "resourceVersion", "description", "ca.crt", "endpoints.kubernetes.io/last-change-trigger-time", "deprecated.daemonset.template.generation":
				delete(v, k)
				continue
			case "finalizers": // that of a Job's pods is missing
				if text(inner) == "- batch.kubernetes.io/job-tracking\n" {
					delete(v, k)
					continue
				}
			}
			if inner == nil || k == "continue" {
				delete(v, k)
				continue
			}
			if v[k] = plain(inner, k); k == "annotations" && text(v[k]) == "{}\n" {
				delete(v, k)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = plain(v[i], key)
		}
		return v
	case string:
		switch {
		case strings.HasSuffix(key, "Time") || strings.HasSuffix(key, "Timestamp") || key == "uid" || strings.HasSuffix(key, "uid"):
			return "…"
		case strings.Contains(key, "pod-template-hash") || key == "nodePort" || strings.Contains(key, "revision-hash"):
			return "…"
		}
		return chance.ReplaceAllString(v, "…")
	case float64:
		if key == "nodePort" {
			return "…"
		}
	}
	return v
}

func paths(gvk, namespace, name string) string {
	return map[string]string{
		"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/namespaces/same/pods", "Service": "/api/v1/namespaces/same/services", "ConfigMap": "/api/v1/namespaces/same/configmaps",
		"Secret": "/api/v1/namespaces/same/secrets", "PersistentVolumeClaim": "/api/v1/namespaces/same/persistentvolumeclaims", "PersistentVolume": "/api/v1/persistentvolumes",
		"Node": "/api/v1/nodes", "ServiceAccount": "/api/v1/namespaces/same/serviceaccounts",
		"Deployment": "/apis/apps/v1/namespaces/same/deployments", "DaemonSet": "/apis/apps/v1/namespaces/same/daemonsets", "StatefulSet": "/apis/apps/v1/namespaces/same/statefulsets",
		"Job": "/apis/batch/v1/namespaces/same/jobs", "CronJob": "/apis/batch/v1/namespaces/same/cronjobs", "Ingress": "/apis/networking.k8s.io/v1/namespaces/same/ingresses",
		"NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/same/networkpolicies", "IngressClass": "/apis/networking.k8s.io/v1/ingressclasses",
		"StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers", "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
		"RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses", "PodDisruptionBudget": "/apis/policy/v1/namespaces/same/poddisruptionbudgets",
		"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/same/roles", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/same/rolebindings",
		"ClusterRoleBinding":             "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
		"CustomResourceDefinition":       "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "Widget": "/apis/example.com/v1/namespaces/same/widgets",
	}[gvk] + namespace + name
}

// TestKubesimAnswersAsTheRealOne makes the same requests of a real control plane and of kubesim's.
func TestKubesimAnswersAsTheRealOne(t *testing.T) {
	f := factory(t, labtest.Real())
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Disable: []string{"local-storage"}})
	require.NoError(t, err)
	c, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}}, kubesim.Backends{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	url := "https://" + vip + ":6443"
	real, played := apiOf(t, p.Kubeconfig(url), p.Dial), apiOf(t, c.Kubeconfig(url), c.Dial)
	both := func(what, method, path, accept, contentType, body string) any {
		t.Helper()
		wantCode, want := real.do(t, method, path, accept, contentType, body)
		code, got := played.do(t, method, path, accept, contentType, body)
		assert.Equal(t, wantCode, code, what)
		assert.Equal(t, text(want), text(got), what)
		return want
	}
	const js = "application/json"
	var kinds []string
	for document := range strings.SplitSeq(sameManifests, "\n---\n") {
		var m map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &m), document)
		kind := m["kind"].(string)
		b, err := json.Marshal(m)
		require.NoError(t, err)
		if kind == "Widget" {
			time.Sleep(time.Second) // until the new kind is served
		}
		if kind == "CustomResourceDefinition" { // served at once, and a while later
			real.do(t, "POST", paths(kind, "", ""), js, js, string(b))
			played.do(t, "POST", paths(kind, "", ""), js, js, string(b))
			kinds = append(kinds, kind)
			continue
		}
		both("create "+kind, "POST", paths(kind, "", ""), js, js, string(b))
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for _, kind := range append(kinds, "ReplicaSet", "EndpointSlice") {
		if kind == "Secret" || kind == "IngressClass" || kind == "RuntimeClass" {
			continue // K3s' own are there too
		}
		at := paths(kind, "", "")
		switch kind {
		case "ReplicaSet":
			at = "/apis/apps/v1/namespaces/same/replicasets"
		case "EndpointSlice":
			at = "/apis/discovery.k8s.io/v1/namespaces/same/endpointslices"
		}
		if !strings.Contains(at, "/same/") {
			at += "?labelSelector=same"
		}
		both("table of "+kind, "GET", at, table, js, "")
		both("list of "+kind, "GET", at, js, js, "")
	}
	assert.Equal(t, said(t, real), said(t, played), "events")
	for _, gv := range []string{"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/networking.k8s.io/v1", "apis/storage.k8s.io/v1", "apis/policy/v1", "apis/example.com/v1"} {
		theirs, ours := resources(t, real, gv), resources(t, played, gv)
		for name := range ours {
			assert.Equal(t, theirs[name], ours[name], gv)
		}
	}
	cm := paths("ConfigMap", "", "")
	for _, bad := range [][4]string{
		{"GET", cm + "/none", "", ""}, {"POST", cm, js, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"Bad Name"}}`},
		{"POST", cm + "?fieldValidation=Strict", js, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"strict"},"dta":{}}`},
		{"POST", cm, js, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"}}`},
		{"POST", paths("Pod", "", ""), js, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"noaccount"},"spec":{"serviceAccountName":"none","containers":[{"name":"c","image":"c"}]}}`},
		{"POST", paths("Pod", "", ""), js, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"empty"},"spec":{"containers":[]}}`},
		{"PUT", cm + "/m", js, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","resourceVersion":"1"}}`},
		{"PATCH", cm + "/m", "application/merge-patch+json", `{"data":{"a":"b"}}`}, {"PATCH", cm + "/m", "application/json-patch+json", `[{"op":"remove","path":"/data/none"}]`},
		{"PATCH", paths("Deployment", "", "") + "/web/scale", "application/merge-patch+json", `{"spec":{"replicas":1}}`},
		{"PATCH", paths("Deployment", "", "") + "/web", "application/merge-patch+json", `{"spec":{"selector":{"matchLabels":{"a":"other"}}}}`},
		{"GET", cm + "?watch=true&resourceVersion=1&timeoutSeconds=1", "", ""}, {"GET", cm + "?watch=true&timeoutSeconds=1&labelSelector=same", "", ""},
		{"GET", cm + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dm", "", ""},
		{"GET", cm + "?watch=true&sendInitialEvents=true&timeoutSeconds=1", "", ""},
		{"PATCH", paths("PersistentVolumeClaim", "", "") + "/old", "application/merge-patch+json", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`},
		{"PATCH", paths("PersistentVolumeClaim", "", "") + "/old", "application/merge-patch+json", `{"spec":{"resources":{"requests":{"storage":"1Mi"}}}}`},
		{"DELETE", cm + "/m", js, ""}, {"DELETE", paths("PersistentVolumeClaim", "", "") + "/data", js, ""}, {"DELETE", paths("Namespace", "", "") + "/same", js, ""},
		{"POST", cm, js, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"late"}}`},
		{"GET", "/api/v1/none", "", ""}, {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", js,
			`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`},
	} {
		both(bad[0]+" "+bad[1]+" "+bad[3], bad[0], bad[1], js, bad[2], bad[3])
	}
}

// said are the events of a control plane.
func said(t *testing.T, a api) []string {
	t.Helper()
	_, list := a.do(t, "GET", "/api/v1/namespaces/same/events", "application/json", "", "")
	var out []string
	for _, e := range list.(map[string]any)["items"].([]any) {
		m := e.(map[string]any)
		about := m["involvedObject"].(map[string]any)
		if m["reason"] == "PortInUse" { // the lab's load balancer
			continue
		}
		if strings.Contains(fmt.Sprint(m["message"]), `persistentvolumeclaim "data-db-0" not found`) {
			continue // the scheduler may see the Pod before the claim, which was made first
		}
		if m["reason"] == "WaitForPodScheduled" && about["name"] == "data-db-0" {
			// What a StatefulSet's claim waits for depends on whether its Pod, made right after
			// it, is there when the controller of volumes looks first.
			m["reason"], m["message"] = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
		}
		out = append(out, fmt.Sprint(about["kind"], " ", about["name"], ": ", m["type"], " ", m["reason"], ": ", m["message"]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resources are those that a control plane says it has, by name.
func resources(t *testing.T, a api, gv string) map[string]string {
	t.Helper()
	_, list := a.do(t, "GET", "/"+gv, "application/json", "", "")
	out := map[string]string{}
	for _, r := range list.(map[string]any)["resources"].([]any) {
		m := r.(map[string]any)
		delete(m, "storageVersionHash")
		if verbs, _ := m["verbs"].([]any); verbs != nil {
			slices.SortFunc(verbs, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		}
		out[m["name"].(string)] = text(m)
	}
	return out
}

func text(v any) string {
	b, _ := yaml.Marshal(v)
	return string(b)
}
