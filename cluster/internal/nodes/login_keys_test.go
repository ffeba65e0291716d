package nodes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

// filesInside is Proxmox's API in front of a guest whose agent hands out these files; of
// one that is "!" it says that something is wrong.
type filesInside map[string]string

func (f filesInside) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	path := req.URL.Query().Get("file")
	switch content, there := f[path]; {
	case path == "":
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"version": "9.2.11", "release": "9.2"}})
	case !there:
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"message": "Agent error: failed to open file '" + path + "': No such file or directory"})
	case content == "!":
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"message": "hidden " + path})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"content": content}})
	}
	res := w.Result()
	res.Request = req
	return res, nil
}

// Whose keys let in is read when the first boot is over, or where there was none of ours.
func TestKeysInsideAMachine(t *testing.T) {
	const keys = "/home/teacher/.ssh/authorized_keys"
	passwd := "root:x:0:0:root:/root:/bin/bash\nteacher\nteacher:x:1000:1000:Teacher:/home/teacher:/bin/bash\nstudent1:x:1001:1001::/home/student1:/bin/sh\n"
	for name, tt := range map[string]struct {
		files filesInside
		want  []string
		err   string
	}{
		"booted":                      {filesInside{cloudinit.ResultFile: "{}", "/etc/passwd": passwd, keys: "ssh-ed25519 A a\n\nssh-ed25519 B b\r\n"}, []string{"ssh-ed25519 A a", "ssh-ed25519 B b"}, ""},
		"no key":                      {filesInside{cloudinit.ResultFile: "{}", "/etc/passwd": passwd}, nil, ""},
		"boots for the first time":    {filesInside{firstboot.UserDataFile: "#cloud-config", "/etc/passwd": passwd, keys: "a b"}, nil, errFirstBoot.Error()},
		"never saw cloud-init":        {filesInside{"/etc/passwd": passwd, keys: "a b"}, []string{"a b"}, ""},
		"whether it booted is hidden": {filesInside{cloudinit.ResultFile: "!", "/etc/passwd": passwd, keys: "a b"}, nil, "hidden " + cloudinit.ResultFile},
		"what it was told is hidden":  {filesInside{firstboot.UserDataFile: "!", "/etc/passwd": passwd, keys: "a b"}, nil, "hidden " + firstboot.UserDataFile},
		"passwd is hidden":            {filesInside{cloudinit.ResultFile: "{}", "/etc/passwd": "!"}, nil, "hidden /etc/passwd"},
		"keys are hidden":             {filesInside{cloudinit.ResultFile: "{}", "/etc/passwd": passwd, keys: "!"}, nil, "hidden " + keys},
		"no such user":                {filesInside{cloudinit.ResultFile: "{}", "/etc/passwd": "adam:x:1:1::/a:/b\n"}, nil, "there is no user teacher"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := proxmox.Dial(t.Context(), proxmox.Config{Endpoint: "pve1", TokenID: "a@pve!b", TokenSecret: secret.New("s"), HTTPClient: &http.Client{Transport: tt.files}})
			require.NoError(t, err)
			ns := &Nodes{sharedState: &sharedState{Config: Config{Proxmox: client}}}
			got, err := ns.keysInside(t.Context(), &proxmox.VM{Name: "wk1", Host: "pve1", VMID: 100}, "teacher")
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
