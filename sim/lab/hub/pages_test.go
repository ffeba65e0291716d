package hub

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/internal/browsertest"
)

// person is somebody with a browser that follows no redirects by itself.
type person struct {
	t *testing.T
	*world
	http *http.Client
}

func (w *world) person(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &person{t, w, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ask sends a request, of a form where there is one, and returns the status, where it leads
// and the text.
func (p *person) ask(method, path string, form url.Values, header ...string) (status int, to, text string) {
	p.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	require.NoError(p.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	res, err := p.http.Do(r)
	require.NoError(p.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	for _, secret := range []string{userPassword, adminPassword, serviceToken, evil} {
		require.NotContains(p.t, string(data), secret, "%s %s", method, path)
	}
	return res.StatusCode, res.Header.Get("Location"), string(data)
}

func (p *person) login(name, password string) int {
	p.t.Helper()
	status, _, _ := p.ask("POST", "/hub/login", url.Values{"username": {name}, "password": {password}})
	return status
}

// start logs a person in and starts their server.
func (p *person) start(name, profile string, options ...string) {
	p.t.Helper()
	require.Equal(p.t, http.StatusSeeOther, p.login(name, userPassword))
	form := url.Values{"profile": {profile}}
	for i := 0; i+1 < len(options); i += 2 {
		form.Set("profile-option-"+profile+"--"+options[i], options[i+1])
	}
	_, to, _ := p.ask("POST", "/hub/spawn", form)
	require.Equal(p.t, "/hub/spawn-pending/"+name, to)
	status, _, events := p.ask("GET", "/hub/api/users/"+name+"/server/progress", nil)
	require.Equal(p.t, http.StatusOK, status)
	require.Contains(p.t, events, `"ready":true`)
}

// Requests that need a login, all of student1's.
var behind = [][2]string{ //nolint:gochecknoglobals // a table
	{"GET", "/"}, {"GET", "/hub/home"}, {"GET", "/hub/spawn"}, {"POST", "/hub/spawn"}, {"POST", "/hub/stop"}, {"GET", "/hub/spawn-pending/student1"},
	{"GET", "/user/student1/"}, {"POST", "/user/student1/lab/run"}, {"GET", "/hub/api/users/student1/server/progress"},
	{"DELETE", "/hub/api/users/student1/server"}, {"POST", "/hub/api/users/student1/server"}, {"DELETE", "/hub/api/users/student1"},
	{"GET", "/hub/api/users/student1"}, {"POST", "/user/student1/api/kernels"}, {"GET", "/hub/api/user"},
}

func TestNothingWithoutALogin(t *testing.T) {
	w := newWorld(t, sharedPassword)
	w.person(t).start("student1", "gpu-2")
	stranger, other, gone := w.person(t), w.person(t), w.person(t)
	require.Equal(t, http.StatusSeeOther, other.login("student2", userPassword))
	require.Equal(t, http.StatusSeeOther, gone.login("student1", userPassword))
	base, err := url.Parse(w.url)
	require.NoError(t, err)
	kept := gone.http.Jar.Cookies(base)
	require.Len(t, kept, 1)
	gone.ask("POST", "/hub/logout", nil)
	require.Empty(t, gone.http.Jar.Cookies(base))

	refused := func(status int, to string) bool { return status == http.StatusForbidden || to == "/hub/login" }
	for _, r := range behind {
		for who, header := range map[string][]string{
			"nobody": nil, "a made-up session": {"Cookie", sessionCookie + "=student1"}, "an empty one": {"Cookie", sessionCookie + "="},
			"one that was logged out": {"Cookie", sessionCookie + "=" + kept[0].Value}, "a wrong token": {"Authorization", "token x"},
		} {
			status, to, _ := stranger.ask(r[0], r[1], nil, header...)
			if r[1] == "/" {
				to = strings.Replace(to, "/hub/home", "/hub/login", 1) // which asks the same
			}
			assert.True(t, refused(status, to), "%s may %s %s: %d %s", who, r[0], r[1], status, to)
		}
		if strings.Contains(r[1], "student1") {
			status, _, _ := other.ask(r[0], r[1], url.Values{"code": {"!hostname"}})
			assert.Equal(t, http.StatusForbidden, status, "student2: %s %s", r[0], r[1])
		}
	}
	assert.Zero(t, w.commands(), "nothing ran")
	assert.NotEmpty(t, w.running("student1"), "it runs as before")
}

func TestWhoMayLogIn(t *testing.T) {
	w := newWorld(t, sharedPassword)
	for _, x := range []struct {
		name, password string
		in             bool
	}{
		{"student1", userPassword, true},
		{" Student1 ", userPassword, true}, // as JupyterHub normalizes names
		{"student1", "", false},
		{"student1", userPassword + "x", false},
		{"student1", adminPassword, false},
		{"teacher", userPassword, false},
		{"teacher", adminPassword, true},
		{"homelab-verifier", userPassword, false},
		{"", userPassword, false},
		{evil, userPassword, false},
		{"../teacher", userPassword, false},
	} {
		p := w.person(t)
		status, _, text := p.ask("POST", "/hub/login", url.Values{"username": {x.name}, "password": {x.password}})
		_, to, _ := p.ask("GET", "/hub/home", nil)
		assert.Equal(t, x.in, to == "/hub/spawn", "%q with %q: %d %s", x.name, x.password, status, to)
		assert.Equal(t, !x.in, strings.Contains(text, `role="alert"`), x.name)
	}

	p, verifier := w.person(t), w.person(t)
	require.Equal(t, http.StatusSeeOther, p.login("student1", userPassword))
	status, _, _ := verifier.ask("DELETE", "/hub/api/users/student1", nil, "Authorization", "token "+serviceToken)
	require.Equal(t, http.StatusNoContent, status)
	_, to, _ := p.ask("GET", "/hub/spawn", nil)
	assert.Equal(t, "/hub/login", to, "a user who was removed is logged out")

	w = newWorld(t, native)
	assert.Equal(t, http.StatusSeeOther, w.person(t).login("anybody", "anything"))
	_, _, text := w.person(t).ask("GET", "/hub/login", nil)
	assert.Contains(t, text, "Down on &lt;Friday&gt;<br>8 to 10", "the announcement")
	assert.Contains(t, text, "the lab has no accounts of the authenticator <code>native</code>")
}

// A page of another site can neither log somebody in nor use their session.
func TestOtherSites(t *testing.T) {
	w := newWorld(t, sharedPassword)
	p := w.person(t)
	p.start("student1", "cpu")
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
		for _, path := range []string{"/hub/login", "/hub/logout", "/hub/spawn", "/hub/stop", "/user/student1/lab/run"} {
			status, _, _ := p.ask("POST", path, url.Values{"code": {"!hostname"}, "username": {"student2"}, "password": {userPassword}}, header...)
			assert.Equal(t, http.StatusForbidden, status, "%s %v", path, header)
		}
	}
	assert.Zero(t, w.commands())
	res, err := w.person(t).http.PostForm(w.url+"/hub/login", url.Values{"username": {"student1"}, "password": {userPassword}})
	require.NoError(t, err)
	_ = res.Body.Close()
	c := res.Cookies()[0]
	assert.True(t, c.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, c.SameSite)
	assert.GreaterOrEqual(t, len(c.Value), 26)
}

func TestCells(t *testing.T) {
	w := newWorld(t, sharedPassword)
	p := w.person(t)
	p.start("student1", "gpu-2")
	for code, want := range map[string]ran{
		"!nvidia-smi -L":              {Output: "GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n"},
		"\n  !hostname\n!hostname\n":  {Output: "jupyter-student1\njupyter-student1\n"},
		"!false":                      {Code: 1},
		"":                            {},
		"# nothing":                   {},
		"import torch\n!nvidia-smi":   {Code: 1, Output: "There is no Python in the lab, so this was not run: import torch\nA line that starts with ! is a command in the pod, for example !nvidia-smi.\n"},
		"!python3 -c 'print(1)'":      {Code: 1, Output: "There is no Python in the lab, so this was not run: !python3 -c 'print(1)'\nA line that starts with ! is a command in the pod, for example !nvidia-smi.\n"},
		"!hostname\nprint('hello !')": {Code: 1, Output: "There is no Python in the lab, so this was not run: print('hello !')\nA line that starts with ! is a command in the pod, for example !nvidia-smi.\n"},
	} {
		status, _, text := p.ask("POST", "/user/student1/lab/run", url.Values{"code": {code}})
		var got ran
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, want, got, code)
	}
	before := w.commands()
	p.ask("POST", "/user/student1/lab/run", url.Values{"code": {"!" + strings.Repeat("x", maxForm)}})
	assert.Equal(t, before, w.commands(), "too long to be read")
}

// TestInABrowser is a person who logs in, is told why a server does not start, starts one with
// GPUs, runs cells, and goes.
func TestInABrowser(t *testing.T) {
	w := newWorld(t, sharedPassword)
	b := browsertest.Open(t)
	clean := func() {
		t.Helper()
		var evil bool
		b.Eval(`!!window.evil`, &evil)
		assert.False(t, evil, "text became a script")
		assert.Empty(t, b.Complaints(w.url+"/"))
		var page string
		b.Eval(`document.documentElement.outerHTML + document.cookie`, &page)
		for _, secret := range []string{adminPassword, serviceToken, userPassword} {
			assert.NotContains(t, page, secret)
		}
	}
	fits := func() {
		t.Helper()
		for _, width := range []int{420, 1000} {
			b.View(width, "dark")
			var wide int
			b.Eval(`document.documentElement.scrollWidth`, &wide)
			assert.LessOrEqual(t, wide, width)
		}
		b.View(1000, "light")
	}
	b.View(1000, "light")
	b.Visit(w.url + "/")
	b.WaitUntil(`location.pathname == "/hub/login"`)
	fits()
	b.Eval(`{const f = document.querySelector("main form"); f.username.value = "student1"; f.password.value = "`+userPassword+`"; f.requestSubmit()}`, nil)
	b.WaitUntil(`location.pathname == "/hub/spawn" && document.readyState == "complete"`)
	clean()
	fits()
	var text string
	b.Eval(`document.querySelector(".choices").innerText`, &text)
	for _, says := range []string{"2 CPUs, 0.5 guaranteed", "4GiB of memory, 2GiB guaranteed", "60GiB of memory", "GPU\n", "2 GPUs", evil} {
		assert.Contains(t, text, says)
	}
	choose := func(profile string) {
		b.Eval(`document.querySelector("input[value=`+profile+`]").click(); document.querySelector("main form").requestSubmit()`, nil)
	}
	choose("broken")
	b.WaitUntil(`!!document.querySelector(".problem") && document.querySelector(".problem").textContent.includes('RuntimeClass "nowhere" not found')`)
	b.Visit(w.url + "/hub/spawn")
	choose("gpu-2")
	b.WaitUntil(`location.pathname == "/user/student1/" && document.readyState == "complete" && !!document.querySelector("#all")`)
	b.Eval(`document.querySelector("#add").click()`, nil)
	b.Eval(`{const last = document.querySelector(".cell:last-child"); last.querySelector("textarea").value = "!cat evil"; document.querySelector("#all").click()}`, nil)
	b.WaitUntil(`document.querySelector(".cell:last-child .mark").textContent == "[6]:"`)
	b.Eval(`document.querySelectorAll(".out")[1].textContent`, &text)
	assert.Equal(t, "GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n", text)
	b.Eval(`document.querySelector(".cell:last-child .out").textContent`, &text)
	assert.Equal(t, evil+"\n", text)
	clean()
	fits()
	b.Eval(`document.querySelector("main .bar form").requestSubmit()`, nil)
	b.WaitUntil(`location.pathname == "/hub/spawn" && !!document.querySelector(".choices")`)
	b.Eval(`document.querySelector("header form").requestSubmit()`, nil)
	b.WaitUntil(`location.pathname == "/hub/login"`)
	b.Visit(w.url + "/user/student1/")
	b.WaitUntil(`location.pathname == "/hub/login"`)
	clean()
}

// TestChoicesOfTheForm: the form shows a profile's options, and the server has what was chosen.
func TestChoicesOfTheForm(t *testing.T) {
	w := newWorld(t, sharedPassword)
	p := w.person(t)
	require.Equal(t, http.StatusSeeOther, p.login("student1", userPassword))
	_, _, text := p.ask("GET", "/hub/spawn", nil)
	for _, part := range []string{`<select name="profile-option-gpu-2--image">`, `<option value="base" selected>base</option>`, "PyTorch", `name="profile-option-gpu-2--image--unlisted-choice"`} {
		assert.Contains(t, text, part)
	}
	p.ask("POST", "/hub/spawn", url.Values{"profile": {"gpu-2"}, "profile-option-gpu-2--image": {"torch"}, "profile-option-cpu--image": {"other"}})
	require.Eventually(t, func() bool { return w.running("student1") != "" }, 20*time.Second, 20*time.Millisecond)
	pod, err := w.Client.CoreV1().Pods("jupyterhub").Get(t.Context(), w.running("student1"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "torch:1", pod.Spec.Containers[0].Image)
}
