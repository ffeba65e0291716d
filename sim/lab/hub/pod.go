package hub

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// podOf makes the pod of a user's server as KubeSpawner does.
func (h *hub) podOf(user, claim string, t map[string]any) (*corev1.Pod, error) {
	labels := map[string]any{
		"app": "jupyterhub", "component": Component, "app.kubernetes.io/name": "jupyterhub", "app.kubernetes.io/component": Component,
		"app.kubernetes.io/instance": h.Pod.Labels["app.kubernetes.io/instance"], "hub.jupyter.org/username": user, "hub.jupyter.org/servername": "",
	}
	mergeInto(labels, t["extra_labels"].(map[string]any))
	resources, err := resourcesOf(t)
	if err != nil {
		return nil, err
	}
	volumes, mounts := h.volumesOf(user, claim, t)
	args, ok := t["cmd"].([]any)
	if !ok {
		args = []any{"jupyterhub-singleuser"}
	}
	container := map[string]any{
		"name": "notebook", "image": t["image"], "args": args, "env": environmentOf(user, t["environment"]),
		"ports": []any{map[string]any{"name": "notebook-port", "containerPort": serverPort}}, "resources": resources, "volumeMounts": mounts,
		"securityContext": map[string]any{"allowPrivilegeEscalation": false, "runAsUser": h.values.Singleuser.UID},
	}
	inits, _ := t["init_containers"].([]any)
	if h.values.Singleuser.CloudMetadata.BlockWithIptables {
		inits = append([]any{map[string]any{"name": "block-cloud-metadata", "image": "quay.io/jupyterhub/k8s-network-tools:4.4.2", "command": []any{"iptables"},
			"securityContext": map[string]any{"runAsUser": 0, "privileged": true, "capabilities": map[string]any{"add": []any{"NET_ADMIN"}}}}}, inits...)
	}
	spec := map[string]any{
		"containers": []any{container}, "initContainers": inits, "volumes": volumes, "restartPolicy": "OnFailure", "automountServiceAccountToken": false,
		"enableServiceLinks": false, "tolerations": t["tolerations"], "nodeSelector": t["node_selector"], "securityContext": map[string]any{"fsGroup": h.values.Singleuser.FsGID},
	}
	mergeInto(container, table(h.values.Hub.Config.Spawner.Container))
	if extra, ok := t["extra_pod_config"].(map[string]any); ok {
		mergeInto(spec, extra)
	}
	pod := object.New("v1", "Pod", h.hubNamespace(), "jupyter-"+user, map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": map[string]any{"hub.jupyter.org/username": user}}, "spec": spec,
	})
	out := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod.Object, out); err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.GetName(), err)
	}
	return out, nil
}

func (h *hub) hubNamespace() string { return h.Pod.Namespace }

func (h *hub) volumesOf(user, claim string, t map[string]any) (volumes, mounts []any) {
	storage := h.values.Singleuser.Storage
	if claim != "" {
		subPath := storage.Dynamic.SubPath
		if storage.Type == "static" {
			subPath = storage.Static.SubPath
		}
		volumes = append(volumes, map[string]any{"name": "home", "persistentVolumeClaim": map[string]any{"claimName": claim}})
		mounts = append(mounts, map[string]any{"name": "home", "mountPath": cmp.Or(storage.HomeMountPath, "/home/jovyan"), "subPath": templated(subPath, user)})
	}
	for list, name := range map[*[]any]string{&volumes: "volumes", &mounts: "volume_mounts"} {
		m, _ := t[name].(map[string]any)
		for _, key := range slices.Sorted(mapKeys(m)) {
			*list = append(*list, m[key])
		}
	}
	return volumes, mounts
}

func mapKeys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// environmentOf has the user's name in all its strings (kubespawner/spawner.py, _expand_all).
func environmentOf(user string, v any) []any {
	env := []any{
		map[string]any{"name": "JUPYTERHUB_USER", "value": user}, map[string]any{"name": "JUPYTERHUB_SERVICE_PREFIX", "value": "/user/" + user + "/"},
	}
	m, _ := v.(map[string]any)
	for _, name := range slices.Sorted(mapKeys(m)) {
		switch value := replaced(m[name], templates(user)).(type) {
		case map[string]any:
			if _, named := value["name"]; !named {
				value["name"] = name
			}
			env = append(env, value)
		default:
			env = append(env, map[string]any{"name": name, "value": fmt.Sprint(value)})
		}
	}
	return env
}

// resourcesOf are limits and requests: memory of KubeSpawner's traits is in powers of
// 1024, whether it says G or not.
func resourcesOf(t map[string]any) (map[string]any, error) {
	limits, requests := map[string]any{}, map[string]any{}
	for _, r := range []struct {
		to    map[string]any
		trait string
		name  string
	}{{limits, "cpu_limit", "cpu"}, {requests, "cpu_guarantee", "cpu"}, {limits, "mem_limit", "memory"}, {requests, "mem_guarantee", "memory"}} {
		v := t[r.trait]
		if v == nil || v == "" {
			continue
		}
		text := fmt.Sprint(v)
		if r.name == "memory" {
			n, err := memoryOf(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.trait, err)
			}
			text = strconv.FormatInt(n, 10)
		}
		r.to[r.name] = text
	}
	for to, name := range map[*map[string]any]string{&limits: "extra_resource_limits", &requests: "extra_resource_guarantees"} {
		extra, _ := t[name].(map[string]any)
		for key, v := range extra {
			(*to)[key] = fmt.Sprint(v)
		}
	}
	return map[string]any{"limits": limits, "requests": requests}, nil
}

// memoryOf reads a trait of JupyterHub's ByteSpecification.
func memoryOf(v any) (int64, error) {
	text := fmt.Sprint(v)
	if n, ok := v.(float64); ok {
		return int64(n), nil
	}
	factor := map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}
	number, scale := text, 1.0
	if f, ok := factor[text[len(text)-1]]; ok {
		number, scale = text[:len(text)-1], f
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a valid memory specification. Must be an int or a string with suffix K, M, G, T", text)
	}
	return int64(n * scale), nil
}
