package modelengine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// masterAlias is what rows of the administrator's key have instead of its hash (litellm/constants.py,
// LITELLM_PROXY_MASTER_KEY_ALIAS).
const masterAlias = "litellm_proxy_master_key"

// useRow is a row of LiteLLM_DailyUserSpend: what a key used of a model on a day, of UTC. Requests that fail are not
// in it, as with disable_error_logs (litellm/proxy/hooks/proxy_track_cost_callback.py).
type useRow struct {
	Date     string `json:"date"`
	Token    string `json:"api_key"`
	Alias    string `json:"key_alias"` // LiteLLM finds that of a deleted key, too
	Model    string `json:"model_group"`
	Requests int    `json:"api_requests"`
	Prompt   int    `json:"prompt_tokens"`
	Answer   int    `json:"completion_tokens"`
}

// usage is what an engine says that an answer took.
type usage struct {
	Prompt int `json:"prompt_tokens"`
	Answer int `json:"completion_tokens"`
}

// note adds an answer to the day of its key, nil is the administrator's.
func (k *GatewayKeys) note(key *gatewayKey, model string, u usage, now time.Time) {
	row := useRow{Date: now.UTC().Format(time.DateOnly), Token: masterAlias, Model: model}
	if key != nil {
		row.Token, row.Alias = key.Token, key.Alias
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.use, func(r useRow) bool { return r.Date == row.Date && r.Token == row.Token && r.Model == row.Model })
	if i < 0 {
		k.use, i = append(k.use, row), len(k.use)
	}
	k.use[i].Requests++
	k.use[i].Prompt += u.Prompt
	k.use[i].Answer += u.Answer
	k.tellChange()
}

// usageReader passes an engine's answer on, and reads its usage. An engine writes an event at once.
type usageReader struct {
	http.ResponseWriter
	hide  bool // the usage, for which the client did not ask
	code  int
	usage *usage
}

func (u *usageReader) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *usageReader) WriteHeader(code int) {
	u.code = code
	u.ResponseWriter.WriteHeader(code)
}

func (u *usageReader) Write(data []byte) (int, error) {
	var answer struct {
		Choices []any  `json:"choices"`
		Usage   *usage `json:"usage"`
	}
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("data: ")), &answer) == nil && answer.Usage != nil {
		u.usage = answer.Usage
		if u.hide && len(answer.Choices) == 0 {
			return len(data), nil
		}
	}
	return u.ResponseWriter.Write(data)
}

// withUsage makes a request for a stream ask for the usage, as the gateway does for itself
// (litellm/proxy/litellm_pre_call_utils.py); hide says that the client did not.
func withUsage(body []byte) (asks []byte, hide bool) {
	var q map[string]any
	if json.Unmarshal(body, &q) != nil || q["stream"] != true {
		return body, false
	}
	options, _ := q["stream_options"].(map[string]any)
	if options["include_usage"] == true {
		return body, false
	}
	q["stream_options"] = map[string]any{"include_usage": true}
	asks, err := json.Marshal(q)
	if err != nil {
		return body, false
	}
	return asks, true
}

// activity is GET /user/daily/activity (litellm/proxy/management_endpoints/common_daily_activity.py): pages of rows,
// newest day first, each page summed up by day, model and key.
func (g Gateway) activity(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, to := q.Get("start_date"), q.Get("end_date")
	if from == "" || to == "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"detail": map[string]any{"error": "Please provide start_date and end_date"}})
		return
	}
	page, _ := strconv.Atoi(cmp.Or(q.Get("page"), "1"))
	size, _ := strconv.Atoi(cmp.Or(q.Get("page_size"), "50"))
	if page < 1 || size < 1 || size > 1000 {
		refuse(w, http.StatusUnprocessableEntity, "", "", "page and page_size: Input should be from 1 to 1000")
		return
	}
	g.Keys.mu.Lock()
	rows := slices.DeleteFunc(slices.Clone(g.Keys.use), func(u useRow) bool { return u.Date < from || u.Date > to })
	g.Keys.mu.Unlock()
	slices.SortStableFunc(rows, func(a, b useRow) int { return cmp.Compare(b.Date, a.Date) })
	some := rows[min(len(rows), (page-1)*size):min(len(rows), page*size)]
	writeJSON(w, http.StatusOK, map[string]any{"results": days(some), "metadata": map[string]any{
		"page": page, "total_pages": (len(rows) + size - 1) / size, "has_more": page*size < len(rows)}})
}

// days are the results of a page.
func days(rows []useRow) []any {
	out := []any{}
	for start := 0; start < len(rows); {
		groups := map[string]any{}
		end := start
		for ; end < len(rows) && rows[end].Date == rows[start].Date; end++ {
			u := rows[end]
			group, _ := groups[u.Model].(map[string]any)
			if group == nil {
				group = map[string]any{"metadata": map[string]any{}, "api_key_breakdown": map[string]any{}}
				groups[u.Model] = group
			}
			var alias any
			if u.Alias != "" {
				alias = u.Alias
			}
			group["api_key_breakdown"].(map[string]any)[u.Token] = map[string]any{"metadata": map[string]any{"key_alias": alias}, "metrics": map[string]any{
				"prompt_tokens": u.Prompt, "completion_tokens": u.Answer, "total_tokens": u.Prompt + u.Answer,
				"api_requests": u.Requests, "successful_requests": u.Requests, "failed_requests": 0, "spend": 0}}
		}
		out = append(out, map[string]any{"date": rows[start].Date, "breakdown": map[string]any{"model_groups": groups}})
		start = end
	}
	return out
}
