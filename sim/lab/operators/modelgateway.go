package operators

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
	"github.com/cps-gpu/homelab/sim/modelengine"
)

// gatewayConfig is what is read of LiteLLM's file.
type gatewayConfig struct {
	Models []struct {
		Name   string `json:"model_name"`
		Params struct {
			Base string `json:"api_base"`
			Key  string `json:"api_key"`
		} `json:"litellm_params"`
	} `json:"model_list"`
}

// modelGateway plays LiteLLM for a workload, once. Its keys are on the disk of its database's first server: they
// go with it.
func modelGateway(ctx context.Context, i *instance) (time.Duration, error) {
	if i.kept != nil {
		return 0, nil
	}
	g, err := i.gateway(ctx)
	if err != nil {
		return 0, err
	}
	at := traffic.Place{Namespace: i.pod.Namespace, Workload: traffic.Workload(i.pod)}
	context.AfterFunc(ctx, i.Traffic.Handle(at, 0, g.Handler()))
	i.kept = true
	return 0, nil
}

func (i *instance) gateway(ctx context.Context) (modelengine.Gateway, error) {
	g := modelengine.Gateway{Keys: &modelengine.GatewayKeys{}, Engine: func(base string) (http.Handler, error) { return i.at(base) }}
	var err error
	if g.Master, err = i.variable(ctx, "LITELLM_MASTER_KEY"); err != nil {
		return g, err
	}
	config, err := i.gatewayConfig(ctx)
	if err != nil {
		return g, err
	}
	for _, m := range config.Models {
		key := m.Params.Key
		if name, is := strings.CutPrefix(key, "os.environ/"); is {
			if key, err = i.variable(ctx, name); err != nil {
				return g, err
			}
		}
		g.Models = append(g.Models, modelengine.Upstream{Name: m.Name, Base: m.Params.Base, Key: key})
	}
	place, err := i.databasePlace(ctx)
	if err != nil {
		return g, err
	}
	const file = "/litellm.json"
	disk := i.Volumes.Disk(place)
	if data, err := disk.ReadFile(file); err == nil {
		if err := g.Keys.Restore(data); err != nil {
			return g, err
		}
	}
	g.Keys.Changed = func(data []byte) { _ = disk.WriteFile(file, data, 0o600) }
	return g, nil
}

// gatewayConfig reads the file that --config names, of the ConfigMap that is mounted there.
func (i *instance) gatewayConfig(ctx context.Context) (c gatewayConfig, err error) {
	folder, name := path.Split(i.argument("config"))
	mounted := i.mounted(folder)
	if mounted == "" {
		return c, fmt.Errorf("no ConfigMap has %s", i.argument("config"))
	}
	cm, err := i.Client.CoreV1().ConfigMaps(i.pod.Namespace).Get(ctx, mounted, metav1.GetOptions{})
	if err != nil {
		return c, err
	}
	return c, yaml.Unmarshal([]byte(cm.Data[name]), &c)
}

// databasePlace is where the data of the database is that DATABASE_URL names.
func (i *instance) databasePlace(ctx context.Context) (string, error) {
	text, err := i.variable(ctx, "DATABASE_URL")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("DATABASE_URL: %w", err)
	}
	service, namespace, _ := strings.Cut(u.Hostname(), ".")
	namespace, _, _ = strings.Cut(namespace, ".")
	claim, err := i.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, strings.TrimSuffix(service, "-rw")+"-1", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pv, err := i.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pod, err := i.Client.CoreV1().Pods(namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if pod.Spec.NodeName == "" {
		return "", fmt.Errorf("%s/%s, a server of the database, is on no node yet", namespace, pod.Name)
	}
	return traffic.VolumePlace(pv, pod.Spec.NodeName), nil
}

// at is what listens at an address of the cluster, http://name.namespace.svc:port/….
func (i *instance) at(address string) (http.Handler, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	names := strings.Split(u.Hostname(), ".")
	port, err := strconv.Atoi(u.Port())
	if err != nil || len(names) < 2 {
		return nil, fmt.Errorf("%s: %w", address, traffic.ErrNoRoute)
	}
	return i.Traffic.Service(names[1], names[0], "", int32(port))
}

// variable is a variable of the container, also one of a Secret.
func (i *instance) variable(ctx context.Context, name string) (string, error) {
	for _, e := range i.container.Env {
		if e.Name != name {
			continue
		}
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			return e.Value, nil
		}
		from := e.ValueFrom.SecretKeyRef
		s, err := i.Client.CoreV1().Secrets(i.pod.Namespace).Get(ctx, from.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return string(s.Data[from.Key]), nil
	}
	return "", nil
}

// engineKey is the variable with the key that an engine asks for.
func engineKey(k modelengine.Kind) string {
	return map[modelengine.Kind]string{modelengine.VLLM: "VLLM_API_KEY", modelengine.LlamaCpp: "LLAMA_API_KEY"}[k]
}
