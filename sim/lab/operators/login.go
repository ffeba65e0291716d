package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
	"github.com/cps-gpu/homelab/sim/lab/login"
	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

func loginPrograms() []program {
	return []program{
		{name: "dex", image: "dexidp/dex", watch: []kind{}, sync: dex},
		{name: "grafana", image: "grafana/grafana", watch: []kind{}, sync: grafana},
		{name: "oauth2-proxy", image: "oauth2-proxy/oauth2-proxy", watch: []kind{}, sync: gate},
		{name: "chat roles", image: "nginxinc/nginx-unprivileged", watch: []kind{}, sync: chatRoles},
		{name: "open-webui", image: "open-webui/open-webui", watch: []kind{}, sync: chat},
	}
}

// dexStorage has what Dex stores as objects of its own kinds.
const dexStorage = "lab-dex-storage"

// dex starts Dex, once: it reads its configuration at its start.
func dex(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		config, err := i.file(ctx, "config", "config.yaml")
		if err != nil {
			return nil, err
		}
		env, err := i.variables(ctx)
		if err != nil {
			return nil, err
		}
		o := login.Options{Config: []byte(config), Env: env, Now: time.Now}
		namespace := i.pod.Namespace
		switch s, err := i.Client.CoreV1().Secrets(namespace).Get(ctx, dexStorage, metav1.GetOptions{}); {
		case err == nil:
			if err := json.Unmarshal(s.Data["state"], &o.State); err != nil {
				return nil, fmt.Errorf("the state of Dex: %w", err)
			}
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("the state of Dex: %w", err)
		}
		o.Save = func(state login.State) {
			text, err := json.Marshal(state)
			if err == nil {
				err = i.apply(ctx, object.New("v1", "Secret", namespace, dexStorage, map[string]any{"stringData": map[string]any{"state": string(text)}}))
			}
			if err != nil {
				i.Log.Warn("Dex does not store its state", "why", err)
			}
		}
		return login.Dex(o)
	})
}

// grafana starts Grafana, once.
func grafana(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		ini, err := i.file(ctx, "config", "grafana.ini")
		if err != nil {
			return nil, err
		}
		env, err := i.variables(ctx)
		if err != nil {
			return nil, err
		}
		ca, err := i.file(ctx, "grafana-login-ca", "ca.crt")
		return login.Grafana(ini, env, i.Traffic.Client([]byte(ca)), time.Now), err
	})
}

// serveOnce lets a program answer for its workload as long as its pod lives.
func (i *instance) serveOnce(ctx context.Context, start func() (http.Handler, error)) error {
	if i.kept != nil {
		return nil
	}
	h, err := start()
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, i.Traffic.Handle(traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}, 0, h))
	i.kept = true
	return nil
}

// file reads a key of the Secret or ConfigMap of a volume of the pod.
func (i *instance) file(ctx context.Context, volume, key string) (string, error) {
	core := i.Client.CoreV1()
	for _, v := range i.pod.Spec.Volumes {
		switch {
		case v.Name != volume:
		case v.Secret != nil:
			s, err := core.Secrets(i.pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("volume %s: %w", volume, err)
			}
			return string(s.Data[key]), nil
		case v.ConfigMap != nil:
			c, err := core.ConfigMaps(i.pod.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return "", fmt.Errorf("volume %s: %w", volume, err)
			}
			return c.Data[key], nil
		}
	}
	return "", nil
}

// variables is the environment of the container, with the Secrets that it names.
func (i *instance) variables(ctx context.Context) (func(string) string, error) {
	out := map[string]string{}
	read := func(name string, optional *bool) (map[string][]byte, error) {
		s, err := i.Client.CoreV1().Secrets(i.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && optional != nil && *optional {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the environment of %s: %w", i.container.Name, err)
		}
		return s.Data, nil
	}
	for _, from := range i.container.EnvFrom {
		if from.SecretRef == nil {
			continue
		}
		data, err := read(from.SecretRef.Name, from.SecretRef.Optional)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			out[from.Prefix+key] = string(value)
		}
	}
	for _, e := range i.container.Env {
		out[e.Name] = e.Value
		var ref *corev1.SecretKeySelector
		if e.ValueFrom != nil {
			ref = e.ValueFrom.SecretKeyRef
		}
		if ref == nil {
			continue
		}
		data, err := read(ref.Name, ref.Optional)
		if err != nil {
			return nil, err
		}
		out[e.Name] = string(data[ref.Key])
	}
	return func(name string) string { return out[name] }, nil
}
