package scale

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota"
)

// open opens the URL of any scaler.
func open(url string) (rota.Scaler, error) {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "webhook":
		return Webhook(url)
	case "k8s":
		return Kubernetes(url)
	default:
		return Local(url)
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("SECRET", concealed)
	t.Setenv("SHORT", "hunter2")
	const away = "&server=https://h:6443&namespace=n"
	for _, c := range []struct {
		url, want string // the scaler as it prints, or a part of the error
		ok        bool
	}{
		{"webhook:https://h:8443/" + concealed + "?secret-env=SECRET", "webhook:https://h:8443", true},
		{"webhook:http://localhost/x?secret-env=SECRET", "webhook:http://localhost", true},
		{"webhook:http://[::1]:80/x?secret-env=SECRET", "webhook:http://[::1]:80", true},
		{"webhook:http://h/x?secret-env=SECRET", `scale: http is for this host alone, and "h" is another one: write webhook:https://`, false},
		{"webhook:http://localhost/x?secret-env=SECRET&ca=f", "ca, cert and key are for https", false},
		{"webhook:https://h/x", "give one of secret-file=FILE and secret-env=NAME", false},
		{"webhook:https://h/x?secret-env=SECRET&secret-file=f", "give one of secret-file=FILE and secret-env=NAME", false},
		{"webhook:https://h/x?secret-env=NONE_OF_THAT_NAME", "the secret in variable NONE_OF_THAT_NAME has 0 bytes, and 24 are the least: make one with openssl", false},
		{"webhook:https://h/x?secret-env=SHORT", "the secret in variable SHORT has 7 bytes", false},
		{"webhook:https://h/x?secret-file=/none/of/that/name", "the secret file: open /none/of/that/name", false},
		{"webhook:https://h/x?secret=" + concealed, "unknown parameter secret; known are ca, cert, key, secret-env, secret-file", false},
		{"webhook:https://h/x?" + concealed + "!", "unknown parameter ?", false},
		{"webhook:https://u:" + concealed + "@h/x?secret-env=SECRET", "has a user before its host: requests are signed instead", false},
		{"webhook:https:///x?secret-env=SECRET", "has no host", false},
		{"webhook:ftp://h/x?secret-env=SECRET", "begins with webhook:https://", false},
		{"webhook:https://h:x" + concealed + "?secret-env=SECRET", "is not a URL", false},
		{"webhook:https://h/x?secret-env=SECRET&cert=c", "cert and key: give both or none", false},

		{"k8s:deployment/web?" + away, "k8s:deployment/web?namespace=n", true},
		{"k8s:statefulset/web-1.x?" + away, "k8s:statefulset/web-1.x?namespace=n", true},
		{"k8s:deployment/web", "so this is no pod: name the API server with server=https://HOST:PORT", false},
		{"k8s:daemonset/web", "is k8s:deployment/NAME or k8s:statefulset/NAME", false},
		{"k8s:web", "is k8s:deployment/NAME or k8s:statefulset/NAME", false},
		{"k8s:deployment/?" + away, `"" cannot be the name of a deployment`, false},
		{"k8s:deployment/../x?" + away, `"../x" cannot be the name of a deployment`, false},
		{"k8s:deployment/Web?" + away, `"Web" cannot be the name of a deployment`, false},
		{"k8s:deployment/web?server=https://h:6443&namespace=a/b", `"a/b" cannot be a namespace`, false},
		{"k8s:deployment/web?server=https://h:6443", "the pod's namespace: open", false},
		{"k8s:deployment/web?server=http://h&namespace=n", "server is the address of the API server, https://HOST:PORT", false},
		{"k8s:deployment/web?server=https://u:" + concealed + "@h&namespace=n", "server is the address of the API server", false},
		{"k8s:deployment/web?token=" + concealed, "unknown parameter token; known are ca, namespace, server, token-file", false},

		{"local:rota-data/rota.scale", "local:rota-data/rota.scale", true},
		{"local:", "is local:PATH, with the path of its socket", false},
		{"other:x", "is local:PATH", false},
		{"local:a?b", `the socket's path "a?b" has a ?`, false},
		{"local:" + strings.Repeat("x", 104), "has 104 bytes, and 103 are the most: choose a shorter one", false},
	} {
		s, err := open(c.url)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.(interface{ String() string }).String()
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
		if !c.ok && !strings.HasPrefix(got, "scale: ") {
			t.Errorf("%s: %s: the error does not name the package", c.url, got)
		}
		if text := got + show(s); strings.Contains(text, "hunter2") {
			t.Errorf("%s: it shows a secret: %s", c.url, text)
		}
	}
}

func TestAPodKnowsItsServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	s, err := Kubernetes("k8s:deployment/web?namespace=n")
	if err != nil {
		t.Fatal(err)
	}
	d := s.(*deployment)
	if d.server != "https://[fd00::1]:443" || d.files.CA != podFolder+"ca.crt" || d.tokenFile != podFolder+"token" {
		t.Errorf("server %s, certificates %s, token %s", d.server, d.files.CA, d.tokenFile)
	}
}

// FuzzURL: no URL makes a parser panic, no error or scaler tells a password, and what is
// accepted prints in one line.
func FuzzURL(f *testing.F) {
	for _, url := range []string{"webhook:https://h/p?secret-env=SECRET", "k8s:deployment/web?namespace=n&server=https://h:1&ca=f&token-file=g", "k8s:statefulset/w",
		"local:a/b", "webhook:http://[::1%25x]/?%", "k8s:deployment/..%2f?server=https://[", "webhook:https://h/\n?secret-env=SECRET"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		t.Setenv("SECRET", concealed)
		s, err := open(url)
		text := show(s)
		if err != nil {
			text = err.Error()
		}
		if strings.Contains(text, concealed) {
			t.Errorf("%q tells a secret: %s", url, text)
		}
		if k, ok := s.(*deployment); ok && strings.ContainsAny(k.path()+k.server, "?#% \n") {
			t.Errorf("%q asks for %s%s", url, k.server, k.path())
		}
	})
}
