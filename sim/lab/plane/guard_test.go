package plane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// TestGPUGuard: a real API server, which evaluates the policy, and kubesim, which plays it, refuse the same pods in the
// same words.
func TestGPUGuard(t *testing.T) {
	f := factory(t, labtest.Real())
	p, err := f.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}, Disable: []string{"local-storage"}})
	require.NoError(t, err)
	c, err := kubesim.NewPlane(t.Context(), guest.PlaneConfig{TLSSANs: []string{vip}}, kubesim.Backends{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	url := "https://" + vip + ":6443"
	real, played := apiOf(t, p.Kubeconfig(url), p.Dial), apiOf(t, c.Kubeconfig(url), c.Dial)
	const js = "application/json"
	part, err := addon.GPUGuard{Guard: true}.Make(&addon.Site{})
	require.NoError(t, err)
	var bodies [][2]string
	for _, name := range []string{"same", "monitoring"} {
		bodies = append(bodies, [2]string{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`},
			[2]string{"/api/v1/namespaces/" + name + "/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`})
	}
	bodies = append(bodies, [2]string{"/apis/node.k8s.io/v1/runtimeclasses", `{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"nvidia"},"handler":"nvidia"}`})
	for i, plural := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		b, err := json.Marshal(part.After[i])
		require.NoError(t, err)
		bodies = append(bodies, [2]string{"/apis/admissionregistration.k8s.io/v1/" + plural, string(b)})
	}
	for _, b := range bodies {
		for _, a := range []api{real, played} {
			code, said := a.do(t, http.MethodPost, b[0], js, js, b[1])
			require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, code, "%s: %v", b[0], said)
		}
	}
	pod := func(namespace, spec string) (string, string) {
		return "/api/v1/namespaces/" + namespace + "/pods?dryRun=All", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{` + spec + `}}`
	}
	const image, one, silent = `"name":"a","image":"i"`, `"resources":{"limits":{"nvidia.com/gpu":1}}`, `"runtimeClassName":"nvidia","containers":[{"name":"a","image":"i"}]`
	at, body := pod("same", silent)
	eventually(t, time.Minute, "the policy", func(_ context.Context) error {
		if code, said := real.do(t, http.MethodPost, at, js, js, body); code != http.StatusForbidden {
			return fmt.Errorf("HTTP %d: %v", code, said)
		}
		return nil
	})
	nvidia := func(containers string) string { return `"runtimeClassName":"nvidia","containers":[` + containers + `]` }
	env := func(value string) string { return `"env":[{"name":"NVIDIA_VISIBLE_DEVICES",` + value + `}]` }
	for spec, refused := range map[string]string{
		`"containers":[{` + image + `,` + env(`"value":"all"`) + `}]`:                                         "",
		nvidia(`{` + image + `,` + one + `}`):                                                                 "",
		nvidia(`{` + image + `,"resources":{"limits":{"nvidia.com/gpu.shared":1}}}`):                          "",
		nvidia(`{` + image + `,"resources":{"limits":{"nvidia.com/mig-1g.5gb":1}}}`):                          "",
		nvidia(`{` + image + `,` + env(`"value":"void"`) + `}`):                                               "",
		nvidia(`{` + image + `,` + env(`"value":"none"`) + `,"envFrom":[{"configMapRef":{"name":"c"}}]}`):     "",
		nvidia(`{` + image + `,` + one + `,"envFrom":[{"prefix":"APP_","configMapRef":{"name":"c"}}]}`):       "",
		nvidia(`{` + image + `,"resources":{"limits":{"cpu":1}}}`):                                            "requests no GPU",
		nvidia(`{` + image + `,"resources":{"limits":{"nvidia.com/gpu":0}}}`):                                 "requests no GPU",
		nvidia(`{` + image + `,"resources":{"limits":{"nvidia.com/other":1}}}`):                               "requests no GPU",
		nvidia(`{` + image + `,` + one + `},{"name":"b","image":"i"}`):                                        "requests no GPU",
		nvidia(`{`+image+`,`+one+`}`) + `,"initContainers":[{"name":"b","image":"i"}]`:                        "requests no GPU",
		nvidia(`{` + image + `,` + env(`"value":"all"`) + `}`):                                                "can only be void or none",
		nvidia(`{` + image + `,` + one + `,` + env(`"value":"all"`) + `}`):                                    "can only be void or none",
		nvidia(`{` + image + `,` + one + `,` + env(`"value":""`) + `}`):                                       "can only be void or none",
		nvidia(`{` + image + `,` + env(`"value":"void"},{"name":"NVIDIA_VISIBLE_DEVICES","value":"0"`) + `}`): "can only be void or none",
		nvidia(`{` + image + `,` + env(`"valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}`) + `}`):       "can only be void or none",
		nvidia(`{` + image + `,` + one + `,"envFrom":[{"configMapRef":{"name":"c"}}]}`):                       "envFrom could set",
		nvidia(`{` + image + `,` + one + `,"envFrom":[{"prefix":"NVIDIA_","configMapRef":{"name":"c"}}]}`):    "envFrom could set",
		nvidia(`{`+image+`,`+one+`}`) + `,"nodeName":"wk1"`:                                                   "cannot name its node",
	} {
		at, body := pod("same", spec)
		wantCode, want := real.do(t, http.MethodPost, at, js, js, body)
		code, got := played.do(t, http.MethodPost, at, js, js, body)
		assert.Equal(t, refused != "", wantCode == http.StatusForbidden, "%s: %v", spec, want)
		assert.Equal(t, wantCode, code, spec)
		if refused != "" {
			assert.Equal(t, text(want), text(got), spec)
			assert.Contains(t, strings.ReplaceAll(text(got), "\n    ", " "), refused, spec)
		}
		at, body = pod("monitoring", spec)
		wantCode, want = real.do(t, http.MethodPost, at, js, js, body)
		assert.Equal(t, http.StatusCreated, wantCode, "%v", want)
		code, _ = played.do(t, http.MethodPost, at, js, js, body)
		assert.Equal(t, http.StatusCreated, code)
	}
}
