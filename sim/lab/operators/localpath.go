package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// localPathConfig is config.json of the local-path provisioner.
type localPathConfig struct {
	NodePathMap []struct {
		Node  string   `json:"node"`
		Paths []string `json:"paths"`
	} `json:"nodePathMap"`
	SharedFileSystemPath string `json:"sharedFileSystemPath"`
}

// otherNodes is the entry of the provisioner's configuration for all other nodes.
const otherNodes = "DEFAULT_PATH_FOR_NON_LISTED_NODES"

// localPath simulates Rancher's local-path provisioner: K3s' own and further ones.
func localPath(ctx context.Context, i *instance) (time.Duration, error) {
	name := cmp.Or(i.argument("provisioner-name"), i.environment("PROVISIONER_NAME"), "rancher.io/local-path")
	return i.provision(ctx, driver{name: name, volume: localVolume})
}

// localVolume is a folder on the node that the scheduler has chosen. The error messages are
// the provisioner's (provisioner.go, v0.0.37).
func localVolume(ctx context.Context, i *instance, r request) (*corev1.PersistentVolume, error) {
	for _, mode := range r.claim.Spec.AccessModes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return nil, fmt.Errorf("NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes")
		}
	}
	if r.node == "" {
		return nil, errors.New("configuration error, no node was specified")
	}
	root, err := i.pathOn(ctx, r)
	if err != nil {
		return nil, err
	}
	folder := strings.Join([]string{r.name, r.claim.Namespace, r.claim.Name}, "_")
	if pattern := r.class.Parameters["pathPattern"]; pattern != "" {
		if folder, err = patterned(pattern, r); err != nil {
			return nil, err
		}
	}
	full := path.Join(root, folder)
	kind := corev1.HostPathDirectoryOrCreate
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: full, Type: &kind}},
		NodeAffinity:           onNode(r.node),
	}}, nil
}

// onNode ties a volume to a node.
func onNode(name string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
	}}}}
}

// pathOn finds where the configuration wants volumes of a node.
func (i *instance) pathOn(ctx context.Context, r request) (string, error) {
	name := cmp.Or(i.argument("configmap-name"), i.mounted("/etc/config"), "local-path-config")
	config, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the provisioner's configuration: %w", err)
	}
	var c localPathConfig
	if err := json.Unmarshal([]byte(config.Data["config.json"]), &c); err != nil {
		return "", fmt.Errorf("invalid config: %w", err)
	}
	var paths, others []string
	named, general := false, false
	for _, n := range c.NodePathMap {
		switch n.Node {
		case r.node:
			paths, named = n.Paths, true
		case otherNodes:
			others, general = n.Paths, true
		}
	}
	if !named && !general {
		return "", fmt.Errorf("config doesn't contain node %v, and no %v available", r.node, otherNodes)
	}
	if !named {
		paths = others
	}
	if len(paths) == 0 {
		return "", fmt.Errorf("no local path available on node %v", r.node)
	}
	if want := r.class.Parameters["nodePath"]; want != "" {
		if !slices.Contains(paths, want) {
			return "", fmt.Errorf("config doesn't contain path %v on node %v", want, r.node)
		}
		return want, nil
	}
	return paths[0], nil
}

// patterned fills in a class's pathPattern.
func patterned(pattern string, r request) (string, error) {
	t, err := template.New("pathPattern").Parse(pattern)
	if err != nil {
		return "", fmt.Errorf("invalid pathPattern: %w", err)
	}
	var out strings.Builder
	metadata := map[string]any{"PVName": r.name, "PVC": r.claim.ObjectMeta}
	if err := t.Execute(&out, metadata); err != nil {
		return "", fmt.Errorf("invalid pathPattern: %w", err)
	}
	return out.String(), nil
}
