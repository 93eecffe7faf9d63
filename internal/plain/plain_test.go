package plain

import "testing"

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"orders.3": "orders.3", "": "", "größe 日本": "größe 日本", "a b": "a b", `a"b\`: `a"b\`,
		"a\x1bb": `"a\x1bb"`, "a\nb": `"a\nb"`, "a\u202eb": `"a\u202eb"`, "a\xffb": `"a\xffb"`, "a\u200bb": `"a\u200bb"`,
	} {
		if got := Text(s); got != want || Text(got) != got {
			t.Errorf("Text(%q) = %s, want %s", s, got, want)
		}
	}
}
