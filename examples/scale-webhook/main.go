// Command scale-webhook receives the requests of a webhook scaler and prints them; a real
// one would start and end members instead. The handler does all that a receiver must.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// A request is what the group's leader asks for.
type request struct {
	Group  string
	Want   int
	Remove []struct {
		Name, Session string
		Labels        map[string]string
	}
}

// receive checks signature and age of a request and passes it to act, unless it has done
// so before: a request whose answer was lost is sent again with the same id.
func receive(key []byte, act func(request) error) http.HandlerFunc {
	var mu sync.Mutex
	var done string // the id of the last request that was obeyed
	return func(w http.ResponseWriter, r *http.Request) {
		id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		signature := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		seconds, _ := strconv.ParseInt(at, 10, 64)
		age := time.Since(time.Unix(seconds, 0)).Abs()
		var req request
		if err != nil || !hmac.Equal([]byte(signature), []byte(r.Header.Get("Webhook-Signature"))) || age > 5*time.Minute || json.Unmarshal(body, &req) != nil {
			http.Error(w, "the signature is wrong, or the request is too old", http.StatusUnauthorized)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if id == done {
			return
		}
		if err := act(req); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		done = id
	}
}

func main() {
	act := func(r request) error {
		_, err := fmt.Printf("group %s: %d members, without %v\n", r.Group, r.Want, r.Remove)
		return err
	}
	key := os.Getenv("SECRET")
	if key == "" {
		log.Fatal("SECRET is not set: give it the secret of the scaler")
	}
	http.HandleFunc("POST /rota", receive([]byte(key), act))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil)) // in production behind TLS
}
