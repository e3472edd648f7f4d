{{- /* What no schema can say: each refusal is a sentence that tells what to do. */ -}}
{{- define "tidegate.check" -}}
{{- include "tidegate.checkZones" . -}}
{{- if not .Values.playground -}}{{- include "tidegate.checkPlaces" . -}}{{- end -}}
{{- include "tidegate.checkListeners" . -}}
{{- include "tidegate.checkSettings" . -}}
{{- end -}}

{{- define "tidegate.checkZones" -}}
{{- if and .Values.playground .Values.zones -}}
{{- fail "playground runs one gateway in one pod: leave zones empty, or set playground=false" -}}
{{- end -}}
{{- if and .Values.playground (gt (int .Values.processes) 1) -}}
{{- fail "playground runs one gateway: several would not share what memory: holds; set processes=1" -}}
{{- end -}}
{{- if not (or .Values.playground .Values.zones) -}}
{{- fail "zones is empty: name the zones with gateways, such as zones=[{id: 1, name: eu-central-1a, replicas: 2}], or try one pod with playground=true" -}}
{{- end -}}
{{- $seen := dict -}}
{{- range .Values.zones -}}
{{- $id := toString (int .id) -}}
{{- if hasKey $seen $id -}}
{{- fail (printf "zones %s and %s have the same id %s: node ids begin with it, so give each zone its own" (get $seen $id) .name $id) -}}
{{- end -}}
{{- if has .name (values $seen) -}}
{{- fail (printf "zone %s is there twice: raise its replicas instead" .name) -}}
{{- end -}}
{{- $_ := set $seen $id .name -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.checkPlaces" -}}
{{- $log := .Values.log -}}
{{- if not (or $log.url $log.secretKey) -}}
{{- fail "log.url is empty: say where the metadata log is, such as postgres://tidegate@db.example/tidegate, or name the key of secrets.name that holds the URL in log.secretKey" -}}
{{- end -}}
{{- if and $log.url $log.secretKey -}}
{{- fail "log.url and log.secretKey both name the metadata log: leave one of them empty" -}}
{{- end -}}
{{- if and $log.url (not (regexMatch "^(postgres|postgresql|dynamodb|s3|gs|az|http|https)://|^forward:" $log.url)) -}}
{{- fail (printf "log.url %s is no log that several pods can share: write postgres://, dynamodb://, s3://, gs://, az://, http(s):// or forward:" (regexFind "^[a-z0-9]*:?" $log.url | quote)) -}}
{{- end -}}
{{- if regexMatch "^[a-z0-9]+://[^/@]*:[^/@]*@|[?&](ssl)?password=" $log.url -}}
{{- fail "log.url has a password, which all readers of the ConfigMap would see: put the URL into the Secret secrets.name, and name its key in log.secretKey" -}}
{{- end -}}
{{- if not (regexMatch "^(s3|gs|az)://[^/@?]+([/?]|$)" .Values.store.url) -}}
{{- fail "store.url names no store that several pods can share: write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, without keys" -}}
{{- end -}}
{{- if not .Values.secrets.name -}}
{{- fail "secrets.name is empty: make a Secret with the keys instance.key and peer.token, each a long random text, and name it there" -}}
{{- end -}}
{{- if not (and .Values.secrets.instanceKey .Values.secrets.peerToken) -}}
{{- fail "secrets.instanceKey and secrets.peerToken name keys of the Secret that gateways need: leave neither empty" -}}
{{- end -}}
{{- if not (or .Values.allowPlaintext .Values.peers.tls.secret) -}}
{{- fail "peers.tls.secret is empty: gateways would send peer.token and records to each other without TLS; name a Secret with certificates there, or set allowPlaintext=true" -}}
{{- end -}}
{{- if and .Values.secrets.adminToken (not (or .Values.allowPlaintext .Values.admin.tls.secret)) -}}
{{- fail "admin.tls.secret is empty: admin.token would be sent without TLS; name a Secret with certificates there, or set allowPlaintext=true" -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.checkListeners" -}}
{{- $root := . -}}
{{- $processes := int .Values.processes -}}
{{- $ports := list (list "peers.port" (int .Values.peers.port) $processes) (list "admin.port" (int .Values.admin.port) 1) -}}
{{- $names := list -}}
{{- range .Values.listeners -}}
{{- if has .name $names -}}
{{- fail (printf "two listeners are called %s: give each a name of its own" .name) -}}
{{- end -}}
{{- if has .name (list "PEER" "ADMIN") -}}
{{- fail (printf "a listener cannot be called %s: that is the gateways' own; choose another name" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $ports = append $ports (list (printf "the port of listener %s" .name) (int .port) $processes) -}}
{{- if and (eq .protocol "PLAINTEXT") (not $root.Values.allowPlaintext) -}}
{{- fail (printf "listener %s speaks PLAINTEXT, so any client that reaches it needs no name: choose another protocol, or set allowPlaintext=true" .name) -}}
{{- end -}}
{{- if and (hasSuffix "SSL" .protocol) (not .tls) -}}
{{- fail (printf "listener %s speaks %s: name the Secret with its certificates in tls.secret" .name .protocol) -}}
{{- end -}}
{{- if and (not (hasSuffix "SSL" .protocol)) .tls -}}
{{- fail (printf "listener %s has tls, but speaks %s: choose SSL or SASL_SSL, or leave tls out" .name .protocol) -}}
{{- end -}}
{{- if and (hasPrefix "SASL" .protocol) (not .sasl) -}}
{{- fail (printf "listener %s speaks %s: say how clients log in, such as sasl={mechanisms: [SCRAM-SHA-512]}" .name .protocol) -}}
{{- end -}}
{{- if and (not (hasPrefix "SASL" .protocol)) .sasl -}}
{{- fail (printf "listener %s has sasl, but speaks %s: choose SASL_SSL, or leave sasl out" .name .protocol) -}}
{{- end -}}
{{- if and .sasl .sasl.plainKey (not $root.Values.secrets.name) -}}
{{- fail (printf "listener %s takes users from a key of secrets.name, which is empty" .name) -}}
{{- end -}}
{{- if .external -}}{{- include "tidegate.checkExternal" (list $root .) -}}{{- end -}}
{{- end -}}
{{- range $i, $one := $ports -}}
{{- range $other := slice $ports (add $i 1 | int) -}}
{{- $low := min (index $one 1) (index $other 1) | int -}}
{{- $first := ternary $one $other (eq (int (index $one 1)) $low) -}}
{{- $distance := sub (max (index $one 1) (index $other 1)) $low | int -}}
{{- if lt $distance (int (index $first 2)) -}}
{{- fail (printf "%s is %d and %s is %d, but %d gateways of a pod need as many ports each: leave more room" (index $one 0) (index $one 1) (index $other 0) (index $other 1) $processes) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.checkExternal" -}}
{{- $root := index . 0 -}}
{{- $listener := index . 1 -}}
{{- $external := $listener.external -}}
{{- if eq $external.type "NodePort" -}}
{{- if gt (int $root.Values.processes) 1 -}}
{{- fail (printf "listener %s: NodePort gives each pod one port, so it needs processes=1; choose LoadBalancer" $listener.name) -}}
{{- end -}}
{{- else -}}
{{- if not $external.port -}}
{{- fail (printf "listener %s: say at which port clients reach the load balancers, in external.port" $listener.name) -}}
{{- end -}}
{{- if not (regexMatch "\\$\\((POD_NAME|POD_INDEX)\\)" ($external.host | default "")) -}}
{{- fail (printf "listener %s: external.host must differ between pods, since clients choose the gateway: write such as $(POD_NAME).kafka.example" $listener.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.checkSettings" -}}
{{- $ours := list "node.id" "broker.rack" "instance.key" "listeners" "advertised.listeners" "listener.security.protocol.map" "proxy.protocol.listeners" "allow.plaintext.listeners" "metadata.log" "object.store" "peer.listener" "peer.advertised.listener" "peer.security.protocol" "peer.token" "admin.listener" "admin.security.protocol" "admin.token" "metadata.secret.key" "delegation.token.secret.key" "drain.timeout.ms" "disk.cache.dir" "disk.cache.max.bytes" "config.providers" -}}
{{- range $name, $value := .Values.settings -}}
{{- if has $name $ours -}}
{{- fail (printf "settings: the chart sets %s itself, from other values; see its README" $name) -}}
{{- end -}}
{{- if contains "\n" (toString $value) -}}
{{- fail (printf "settings: %s has several lines; write it as one" $name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.env -}}
{{- if and (regexMatch "^(TIDEGATE|KAFKA)_" .name) (not (hasPrefix "TIDEGATE_PIPELINE_" .name)) -}}
{{- fail (printf "env: %s is a setting of gateways, and the pipeline has the same env; write it in settings" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
