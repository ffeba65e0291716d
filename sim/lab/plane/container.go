package plane

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/guest"
)

// mountError is something that a pod needs from the cluster and that does not exist yet. The
// kubelet waits for it.
type mountError struct {
	Volume string
	Err    error
}

// configError is the kubelet's error for a variable without a source.
const configError = "CreateContainerConfigError"

// reason is that of the kubelet's event.
func (e *mountError) reason() string {
	if e.Volume == environmentVolume {
		return configError
	}
	return "FailedMount"
}

// environmentVolume stands for a container's variables, which are read as volumes are.
const environmentVolume = "env"

func (e *mountError) Error() string {
	if e.Volume == environmentVolume {
		return "Error: " + e.Err.Error()
	}
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

func (e *mountError) Unwrap() error { return e.Err }

// containers resolves what the guest needs to run a pod: [0] its init containers,
// [1] the others.
func (k *kubelet) containers(ctx context.Context, m *member, pod *corev1.Pod) ([][]guest.Container, error) {
	volumes, err := k.mounts(ctx, m, pod)
	if err != nil {
		return nil, err
	}
	out := make([][]guest.Container, 2)
	for list, specs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i, spec := range specs {
			c, err := k.container(ctx, m, pod, spec, volumes)
			if err != nil {
				return nil, err
			}
			if list == 1 {
				k.grant(&c, m, pod, i)
			}
			out[list] = append(out[list], c)
		}
	}
	return out, nil
}

// grant passes a container its GPUs as the device plugin does; its own variable wins, as in the kubelet
// (pkg/kubelet/kubelet_pods.go, GenerateRunContainerOptions). Without the nvidia runtime they are ignored, and
// the container sees none.
func (k *kubelet) grant(c *guest.Container, m *member, pod *corev1.Pod, index int) {
	const variable = "NVIDIA_VISIBLE_DEVICES"
	// By CDI in every runtime, which sets the variable to void over a container's own (GetCommonEdits of pkg/nvcdi); a
	// guest knows its GPUs by the variable alone.
	byClaim := pod.Status.ExtendedResourceClaimStatus != nil
	if !usesNVIDIA(pod) && !byClaim {
		c.Env[variable] = "void"
		return
	}
	if uuids := k.visible(m, pod, index); len(uuids) > 0 && (byClaim || c.Env[variable] == "") {
		c.GPUs, c.Env[variable] = len(uuids), strings.Join(uuids, ",")
	}
	if c.Env[variable] == "all" {
		c.GPUs = len(m.usable())
	}
}

func (k *kubelet) container(ctx context.Context, m *member, pod *corev1.Pod, spec corev1.Container, volumes map[string]mounted) (guest.Container, error) {
	env, err := k.environment(ctx, m, pod, spec)
	if err != nil {
		return guest.Container{}, err
	}
	c := guest.Container{Image: spec.Image, Env: env, Files: map[string][]byte{}, Volumes: map[string]*guest.Disk{}}
	for _, arg := range append(append([]string(nil), spec.Command...), spec.Args...) {
		c.Args = append(c.Args, expand(arg, env))
	}
	for _, mount := range spec.VolumeMounts {
		v := volumes[mount.Name]
		switch {
		case v.disk != nil:
			c.Volumes[mount.MountPath] = v.disk(cmp.Or(expand(mount.SubPathExpr, env), mount.SubPath))
		case mount.SubPath != "":
			if data, ok := v.files[mount.SubPath]; ok {
				c.Files[mount.MountPath] = data
			}
		case len(v.files) == 0:
			c.Empty = append(c.Empty, mount.MountPath)
		default:
			for name, data := range v.files {
				c.Files[path.Join(mount.MountPath, name)] = data
			}
		}
	}
	return c, nil
}

// volume returns the files of a volume; kinds without initial files are empty.
func (k *kubelet) volume(ctx context.Context, pod *corev1.Pod, v corev1.Volume) (map[string][]byte, error) {
	var all map[string][]byte
	var items []corev1.KeyToPath
	var optional *bool
	var err error
	switch {
	case v.ConfigMap != nil:
		all, err = k.configMap(ctx, pod.Namespace, v.ConfigMap.Name)
		items, optional = v.ConfigMap.Items, v.ConfigMap.Optional
	case v.Secret != nil:
		all, err = k.secret(ctx, pod.Namespace, v.Secret.SecretName)
		items, optional = v.Secret.Items, v.Secret.Optional
	default:
		return nil, nil
	}
	if apierrors.IsNotFound(err) {
		if optional != nil && *optional {
			return nil, nil
		}
		return nil, &mountError{Volume: v.Name, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", v.Name, err)
	}
	if len(items) == 0 {
		return all, nil
	}
	some := map[string][]byte{}
	for _, item := range items {
		data, ok := all[item.Key]
		if !ok {
			return nil, &mountError{Volume: v.Name, Err: fmt.Errorf("references non-existent config key: %s", item.Key)}
		}
		some[item.Path] = data
	}
	return some, nil
}

func (k *kubelet) configMap(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	cm, err := k.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for key, text := range cm.Data {
		files[key] = []byte(text)
	}
	for key, data := range cm.BinaryData {
		files[key] = data
	}
	return files, nil
}

func (k *kubelet) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	s, err := k.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return s.Data, nil
}

func (k *kubelet) environment(ctx context.Context, m *member, pod *corev1.Pod, spec corev1.Container) (map[string]string, error) {
	env := map[string]string{"HOSTNAME": pod.Name}
	for _, from := range spec.EnvFrom {
		files, err := k.envSource(ctx, pod, from)
		if err != nil {
			return nil, err
		}
		for key, value := range files {
			env[from.Prefix+key] = string(value)
		}
	}
	for _, e := range spec.Env {
		if e.ValueFrom == nil {
			env[e.Name] = expand(e.Value, env)
			continue
		}
		value, there, err := k.envValue(ctx, m, pod, *e.ValueFrom)
		if err != nil {
			return nil, err
		}
		if there { // what is optional and missing leaves what envFrom said
			env[e.Name] = value
		}
	}
	return env, nil
}

func (k *kubelet) envSource(ctx context.Context, pod *corev1.Pod, from corev1.EnvFromSource) (map[string][]byte, error) {
	v := corev1.Volume{Name: environmentVolume}
	if from.ConfigMapRef != nil {
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: from.ConfigMapRef.LocalObjectReference, Optional: from.ConfigMapRef.Optional}
	}
	if from.SecretRef != nil {
		v.Secret = &corev1.SecretVolumeSource{SecretName: from.SecretRef.Name, Optional: from.SecretRef.Optional}
	}
	return k.volume(ctx, pod, v)
}

func (k *kubelet) envValue(ctx context.Context, m *member, pod *corev1.Pod, from corev1.EnvVarSource) (value string, there bool, err error) {
	v := corev1.Volume{Name: environmentVolume}
	var key string
	switch {
	case from.FieldRef != nil:
		return fieldOf(m, pod, from.FieldRef.FieldPath), true, nil
	case from.ConfigMapKeyRef != nil:
		key = from.ConfigMapKeyRef.Key
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: from.ConfigMapKeyRef.LocalObjectReference, Optional: from.ConfigMapKeyRef.Optional}
	case from.SecretKeyRef != nil:
		key = from.SecretKeyRef.Key
		v.Secret = &corev1.SecretVolumeSource{SecretName: from.SecretKeyRef.Name, Optional: from.SecretKeyRef.Optional}
	default:
		return "", true, nil
	}
	files, err := k.volume(ctx, pod, v)
	if err != nil {
		return "", false, err
	}
	data, there := files[key]
	if optional := v.ConfigMap != nil && isTrue(v.ConfigMap.Optional) || v.Secret != nil && isTrue(v.Secret.Optional); !there && !optional {
		return "", false, &mountError{Volume: environmentVolume, Err: fmt.Errorf("couldn't find key %s in %s", key, objectOf(pod.Namespace, v))}
	}
	return string(data), there, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// objectOf names a variable's source, as the kubelet does.
func objectOf(namespace string, v corev1.Volume) string {
	if v.Secret != nil {
		return "Secret " + namespace + "/" + v.Secret.SecretName
	}
	return "ConfigMap " + namespace + "/" + v.ConfigMap.Name
}

// fieldOf is the part of the downward API that pods use for their environment.
func fieldOf(m *member, pod *corev1.Pod, field string) string {
	switch field {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	case "spec.nodeName":
		return m.Name
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "status.hostIP", "status.podIP":
		return m.InternalIP.String()
	default:
		return ""
	}
}
