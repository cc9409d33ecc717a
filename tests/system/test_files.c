/* The file routes over HTTP: exact codes on the container's face, the Worker's mapping, large
 * contents and hostile paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;
static char host[256];

/* The container's own API. */
static struct reply face(const char *path, const char *body)
{
    if (!*host) {
        CLEANUP_REPLY struct reply first = post(&emulator, "/sandbox/files/exec", "[\"true\"]");
        CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/files");
        const char *url = text_at(shown.json, "containerUrl");
        snprintf(host, sizeof host, "Host: %s\r\n", strlen(url) > 7 ? url + 7 : "");
    }
    return request(&emulator, "POST", path, host, body);
}

static struct reply method(const char *name, const char *arguments)
{
    char path[128];
    snprintf(path, sizeof path, "/sandbox/files/%s", name);
    return post(&emulator, path, arguments);
}

static struct reply shell(const char *command)
{
    char body[1024];
    snprintf(body, sizeof body, "[\"%s\"]", command);
    return method("exec", body);
}

TEST a_text_written_is_read_back_with_its_kind(void)
{
    CLEANUP_REPLY struct reply w =
        face("/api/write", "{\"path\":\"/workspace/a.txt\",\"content\":\"h\\u00e9llo\\n\"}");
    char expected[512];
    ASSERT_EQ(200, w.status);
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"path\":\"/workspace/a.txt\",\"timestamp\":\"%s\"}",
             text_at(w.json, "timestamp"));
    ASSERT_STR_EQ(expected, w.body);
    CLEANUP_REPLY struct reply r = face("/api/read", "{\"path\":\"/workspace/a.txt\"}");
    snprintf(expected, sizeof expected,
             "{\"success\":true,\"path\":\"/workspace/a.txt\",\"content\":\"h\xc3\xa9llo\\n\","
             "\"timestamp\":\"%s\",\"encoding\":\"utf-8\",\"isBinary\":false,\"mimeType\":"
             "\"text/plain\",\"size\":7}",
             text_at(r.json, "timestamp"));
    ASSERT_STR_EQ(expected, r.body);
    CLEANUP_REPLY struct reply b =
        face("/api/read", "{\"path\":\"/workspace/a.txt\",\"encoding\":\"base64\"}");
    ASSERT_STR_EQ("aMOpbGxvCg==", text_at(b.json, "content"));
    ASSERT(json_is_true(at(b.json, "isBinary")));
    ASSERT_STR_EQ("text/plain", text_at(b.json, "mimeType"));
    PASS();
}

TEST bytes_written_as_base64_come_back_as_base64(void)
{
    CLEANUP_REPLY struct reply w = face(
        "/api/write",
        "{\"path\":\"/workspace/bin.png\",\"content\":\"iVBORw0KGgo=\",\"encoding\":\"base64\"}");
    ASSERT_EQ(200, w.status);
    CLEANUP_REPLY struct reply r = face("/api/read", "{\"path\":\"/workspace/bin.png\"}");
    ASSERT_STR_EQ("iVBORw0KGgo=", text_at(r.json, "content"));
    ASSERT_STR_EQ("base64", text_at(r.json, "encoding"));
    ASSERT_STR_EQ("image/png", text_at(r.json, "mimeType"));
    ASSERT_EQ(8, number_at(r.json, "size"));
    CLEANUP_REPLY struct reply bad =
        face("/api/write",
             "{\"path\":\"/workspace/bin.png\",\"content\":\"!!!\",\"encoding\":\"base64\"}");
    ASSERT_EQ(400, bad.status);
    ASSERT_STR_EQ("VALIDATION_FAILED", text_at(bad.json, "code"));
    ASSERT_STR_EQ("INVALID_BASE64", text_at(bad.json, "context.validationErrors.0.code"));
    CLEANUP_REPLY struct reply kept = face("/api/read", "{\"path\":\"/workspace/bin.png\"}");
    ASSERT_EQm("a refused write must lose nothing", 8, number_at(kept.json, "size"));
    PASS();
}

TEST parents_are_made_and_a_directory_is_refused(void)
{
    CLEANUP_REPLY struct reply a =
        face("/api/write", "{\"path\":\"/workspace/new/deep/b.json\",\"content\":\"{}\"}");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b =
        face("/api/write", "{\"path\":\"/workspace\",\"content\":\"x\"}");
    ASSERT_EQ(500, b.status);
    ASSERT_STR_EQ("FILESYSTEM_ERROR", text_at(b.json, "code"));
    ASSERT_STR_EQ(
        "Failed to write file '/workspace': EISDIR: illegal operation on a directory, open "
        "'/workspace'",
        text_at(b.json, "message"));
    ASSERT_STR_EQ("file.write", text_at(b.json, "operation"));
    ASSERT_STR_EQ("file.write", text_at(b.json, "context.operation"));
    PASS();
}

TEST a_missing_file_is_404_on_every_face(void)
{
    CLEANUP_REPLY struct reply a = face("/api/read", "{\"path\":\"/workspace/missing\"}");
    ASSERT_EQ(404, a.status);
    ASSERT_STR_EQ("File not found: /workspace/missing", text_at(a.json, "message"));
    ASSERT_STR_EQ("file.read", text_at(a.json, "context.operation"));
    ASSERT_EQ(404, number_at(a.json, "httpStatus"));
    CLEANUP_REPLY struct reply b = method("readFile", "[\"/workspace/missing\"]");
    ASSERT_EQ(404, b.status);
    ASSERT_STR_EQ("FILE_NOT_FOUND", text_at(b.json, "code"));
    ASSERT(*text_at(b.json, "docs"));
    CLEANUP_REPLY struct reply c = request(&emulator, "POST", "/api/file/read",
                                           "X-Sandbox-Id: files\r\n", "{\"path\":\"/nope\"}");
    ASSERT_EQ(404, c.status);
    CLEANUP_REPLY struct reply d = face("/api/read", "{\"path\":\"/workspace\"}");
    ASSERT_EQm("reading a directory is 404 as in the original", 404, d.status);
    PASS();
}

TEST deleting_listing_and_renaming_have_the_codes_of_the_original(void)
{
    CLEANUP_REPLY struct reply m = face("/api/mkdir", "{\"path\":\"/workspace/d1\"}");
    ASSERT_EQ(200, m.status);
    ASSERT(json_is_false(at(m.json, "recursive")));
    CLEANUP_REPLY struct reply again = face("/api/mkdir", "{\"path\":\"/workspace/d1\"}");
    ASSERT_EQ(500, again.status);
    ASSERT_STR_EQ("mkdir operation failed with exit code 1", text_at(again.json, "message"));
    ASSERT_EQ(1, number_at(again.json, "context.exitCode"));
    ASSERT_STR_EQ(
        "mkdir: cannot create directory \xe2\x80\x98/workspace/d1\xe2\x80\x99: File exists",
        text_at(again.json, "context.stderr"));
    CLEANUP_REPLY struct reply deep =
        face("/api/mkdir", "{\"path\":\"/workspace/d1/x/y\",\"recursive\":true}");
    ASSERT_EQ(200, deep.status);
    CLEANUP_REPLY struct reply d = face("/api/delete", "{\"path\":\"/workspace/d1\"}");
    ASSERT_EQ(400, d.status);
    ASSERT_STR_EQ("IS_DIRECTORY", text_at(d.json, "code"));
    CLEANUP_REPLY struct reply w =
        request(&emulator, "DELETE", "/api/file/delete", "X-Sandbox-Id: files\r\n",
                "{\"path\":\"/workspace/d1\"}");
    ASSERT_EQm("the Worker collapses it to 500", 500, w.status);
    ASSERT(strstr(text_at(w.json, "error"), "Cannot delete directory"));
    ASSERT(strstr(text_at(w.json, "error"), "deleteFile()"));
    CLEANUP_REPLY struct reply l = face("/api/list-files", "{\"path\":\"/workspace/none\"}");
    ASSERT_EQ(404, l.status);
    ASSERT_STR_EQ("Directory not found: /workspace/none", text_at(l.json, "message"));
    CLEANUP_REPLY struct reply f = face("/api/list-files", "{\"path\":\"/etc/passwd\"}");
    ASSERT_EQ(400, f.status);
    ASSERT_STR_EQ("NOT_DIRECTORY", text_at(f.json, "code"));
    CLEANUP_REPLY struct reply r =
        face("/api/rename", "{\"oldPath\":\"/workspace/none\",\"newPath\":\"/workspace/other\"}");
    ASSERT_EQ(404, r.status);
    ASSERT_STR_EQ("Source file not found: /workspace/none", text_at(r.json, "message"));
    PASS();
}

TEST rename_and_move_act_as_mv(void)
{
    CLEANUP_REPLY struct reply prepare =
        shell("mkdir -p /workspace/mv/dir; echo 1 > /workspace/mv/a; echo 2 > /workspace/mv/b");
    CLEANUP_REPLY struct reply a =
        method("moveFile", "[\"/workspace/mv/a\", \"/workspace/mv/dir\"]");
    ASSERT_EQ(200, a.status);
    CLEANUP_REPLY struct reply b =
        method("renameFile", "[\"/workspace/mv/b\", \"/workspace/mv/dir/a\"]");
    ASSERT_EQ(200, b.status);
    CLEANUP_REPLY struct reply c = shell("cat /workspace/mv/dir/a; ls /workspace/mv");
    ASSERT_STR_EQ("2\ndir", text_at(c.json, "stdout"));
    CLEANUP_REPLY struct reply over =
        method("moveFile", "[\"/workspace/mv/dir\", \"/usr/local/moved\"]");
    ASSERT_EQm("a move to another file system copies", 200, over.status);
    CLEANUP_REPLY struct reply d = shell("cat /usr/local/moved/a");
    ASSERT_STR_EQ("2", text_at(d.json, "stdout"));
    PASS();
}

TEST a_listing_has_every_fact_of_an_entry(void)
{
    CLEANUP_REPLY struct reply prepare = shell(
        "mkdir -p /workspace/ls/.hid/in /workspace/ls/sub; cd /workspace/ls; printf 12345 > f; "
        "chmod 750 f; ln -s f link; touch .dot .hid/in/x sub/y; cd /workspace");
    CLEANUP_REPLY struct reply a = face("/api/list-files", "{\"path\":\"/workspace/ls\"}");
    ASSERT_EQ(200, a.status);
    ASSERT_EQ(3, number_at(a.json, "count"));
    bool seen = false;
    for (size_t i = 0; i < json_array_size(at(a.json, "files")); i++) {
        const json_t *file = json_array_get(at(a.json, "files"), i);
        if (strcmp(text_at(file, "name"), "f") != 0)
            continue;
        seen = true;
        ASSERT_STR_EQ("/workspace/ls/f", text_at(file, "absolutePath"));
        ASSERT_STR_EQ("f", text_at(file, "relativePath"));
        ASSERT_STR_EQ("file", text_at(file, "type"));
        ASSERT_EQ(5, number_at(file, "size"));
        ASSERT_STR_EQ("rwxr-x---", text_at(file, "mode"));
        ASSERT_EQ(30, strlen(text_at(file, "modifiedAt")));
        ASSERT(json_is_true(at(file, "permissions.executable")));
    }
    ASSERT(seen);
    CLEANUP_REPLY struct reply r =
        face("/api/list-files", "{\"path\":\"/workspace/ls\",\"options\":{\"recursive\":true}}");
    ASSERT_EQm("f, link, sub, sub/y and the child of a hidden directory's child", 6,
               number_at(r.json, "count"));
    CLEANUP_REPLY struct reply all = face(
        "/api/list-files",
        "{\"path\":\"/workspace/ls\",\"options\":{\"recursive\":true,\"includeHidden\":true}}");
    ASSERT_EQ(8, number_at(all.json, "count"));
    PASS();
}

TEST the_first_call_on_files_waits_for_no_shell_and_is_followed_by_one(void)
{
    CLEANUP_REPLY struct reply first = post(&emulator, "/sandbox/shy/exists", "[\"/usr\"]");
    ASSERT_EQ(200, first.status);
    CLEANUP_REPLY struct reply relative = post(&emulator, "/sandbox/shy/exists", "[\"none\"]");
    ASSERT(json_is_false(at(relative.json, "exists")));
    CLEANUP_REPLY struct reply shown = get(&emulator, "/cdn-cgi/local/sandboxes/shy");
    ASSERTm(keep(shown.body), strstr(shown.body, "\"sandbox-shy\""));
    CLEANUP_REPLY struct reply refused = post(&emulator, "/sandbox/shy2/mkdir", "[\"/usr\"]");
    ASSERT(refused.status >= 400);
    CLEANUP_REPLY struct reply after = post(&emulator, "/sandbox/shy2/exec", "[\"pwd\"]");
    ASSERT_STR_EQ("/workspace", text_at(after.json, "stdout"));
    PASS();
}

TEST exists_follows_links(void)
{
    CLEANUP_REPLY struct reply prepare = shell("ln -sf /nowhere /workspace/dangling");
    CLEANUP_REPLY struct reply a = method("exists", "[\"/workspace/dangling\"]");
    ASSERT(json_is_false(at(a.json, "exists")));
    CLEANUP_REPLY struct reply b = method("exists", "[\"/etc/passwd\"]");
    ASSERT(json_is_true(at(b.json, "exists")));
    PASS();
}

TEST relative_paths_start_at_the_sessions_directory(void)
{
    CLEANUP_REPLY struct reply prepare = shell("mkdir -p /workspace/rel; cd /workspace/rel");
    CLEANUP_REPLY struct reply w = method("writeFile", "[\"here.txt\", \"1\"]");
    ASSERT_EQ(200, w.status);
    CLEANUP_REPLY struct reply r = shell("cat /workspace/rel/here.txt; cd /workspace");
    ASSERT_STR_EQ("1", text_at(r.json, "stdout"));
    PASS();
}

TEST a_megabyte_with_every_escape_comes_back_the_same(void)
{
    size_t size = 1 << 20;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 97 == 0 ? (char)(i / 97 % 31 + 1) : "plain \"quoted\" \\ text\n"[i % 22];
    text[size] = '\0';
    json_t *arguments = json_pack("[s, s]", "/workspace/mega.txt", text);
    char *body = json_dumps(arguments, JSON_ENSURE_ASCII);
    json_decref(arguments);
    CLEANUP_REPLY struct reply w = method("writeFile", body);
    free(body);
    ASSERT_EQ(200, w.status);
    CLEANUP_REPLY struct reply r = method("readFile", "[\"/workspace/mega.txt\"]");
    ASSERT_EQ((long long)size, number_at(r.json, "size"));
    ASSERTm("the text changed on its way", strcmp(text, text_at(r.json, "content")) == 0);
    free(text);
    PASS();
}

TEST files_over_32_mib_are_413(void)
{
    CLEANUP_REPLY struct reply prepare = shell("truncate -s 34000000 /workspace/large.bin");
    CLEANUP_REPLY struct reply a = face("/api/read", "{\"path\":\"/workspace/large.bin\"}");
    ASSERT_EQ(413, a.status);
    ASSERT_EQ(34000000, number_at(a.json, "context.actualSize"));
    ASSERT_EQ(33554432, number_at(a.json, "context.maxSize"));
    PASS();
}

TEST a_read_stream_has_metadata_chunks_and_an_end(void)
{
    CLEANUP_REPLY struct reply a = face("/api/read/stream", "{\"path\":\"/workspace/a.txt\"}");
    ASSERT_EQ(200, a.status);
    ASSERT_STR_EQ(
        "data: {\"type\":\"metadata\",\"mimeType\":\"text/plain\",\"size\":7,\"isBinary\":false,"
        "\"encoding\":\"utf-8\"}\n\ndata: {\"type\":\"chunk\",\"data\":\"h\xc3\xa9llo\\n\"}\n\n"
        "data: {\"type\":\"complete\",\"bytesRead\":7}\n\n",
        a.body);
    char value[64];
    ASSERT_STR_EQ("text/event-stream", header_of(&a, "Content-Type", value, sizeof value));
    CLEANUP_REPLY struct reply prepare = shell("head -c 140000 /dev/zero > /workspace/r.bin");
    CLEANUP_REPLY struct reply b = face("/api/read/stream", "{\"path\":\"/workspace/r.bin\"}");
    int chunks = 0;
    for (const char *at_ = b.body; (at_ = strstr(at_, "\"type\":\"chunk\"")); at_++)
        chunks++;
    ASSERT_EQ(3, chunks);
    ASSERT(strstr(b.body, "{\"type\":\"complete\",\"bytesRead\":140000}"));
    CLEANUP_REPLY struct reply c = face("/api/read/stream", "{\"path\":\"/workspace/missing\"}");
    ASSERT_EQ(200, c.status);
    ASSERT_STR_EQ("data: {\"type\":\"error\",\"error\":\"File not found: /workspace/missing\"}\n\n",
                  c.body);
    PASS();
}

TEST kinds_are_told_by_extension_then_by_content(void)
{
    CLEANUP_REPLY struct reply prepare = shell(
        "cd /workspace; echo x > q.sql; echo '{}' > j.json; echo 'print(1)' > p.py; : > empty; "
        "printf '\\\\001\\\\002\\\\003\\\\004' > ctl");
    static const struct {
        const char *path, *mime, *encoding;
    } rows[] = {
        {"/workspace/q.sql", "application/x-sql", "base64"},
        {"/workspace/j.json", "application/json", "utf-8"},
        {"/workspace/empty", "inode/x-empty", "utf-8"},
        {"/workspace/ctl", "application/octet-stream", "base64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"path\":\"%s\"}", rows[i].path);
        CLEANUP_REPLY struct reply r = face("/api/read", body);
        ASSERT_STR_EQm(rows[i].path, rows[i].mime, text_at(r.json, "mimeType"));
        ASSERT_STR_EQm(rows[i].path, rows[i].encoding, text_at(r.json, "encoding"));
    }
    CLEANUP_REPLY struct reply py = face("/api/read", "{\"path\":\"/workspace/p.py\"}");
    ASSERT_STR_EQ("utf-8", text_at(py.json, "encoding"));
    PASS();
}

TEST paths_that_cannot_be_are_refused_alike(void)
{
    static const char *const paths[] = {"\"\"", "\"a\\u0000b\"", "17", "null"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"path\":%s}", paths[i]);
        CLEANUP_REPLY struct reply a = face("/api/read", body);
        ASSERT_EQm(paths[i], 400, a.status);
        ASSERT_STR_EQm(paths[i], "VALIDATION_FAILED", text_at(a.json, "code"));
    }
    char *body = malloc(6000);
    int used = snprintf(body, 6000, "{\"path\":\"/");
    memset(body + used, 'a', 4100);
    snprintf(body + used + 4100, 100, "\"}");
    CLEANUP_REPLY struct reply b = face("/api/read", body);
    free(body);
    ASSERT_EQ(400, b.status);
    ASSERT_STR_EQ("INVALID_PATH", text_at(b.json, "context.validationErrors.0.code"));
    CLEANUP_REPLY struct reply c = face("/api/rename", "{\"oldPath\":\"\",\"newPath\":\"x\"}");
    ASSERT_EQ(500, c.status);
    ASSERT_STR_EQ("SECURITY_VALIDATION_FAILED", text_at(c.json, "code"));
    PASS();
}

TEST links_never_lead_out_of_the_sandbox(void)
{
    char canary[128], command[512];
    snprintf(canary, sizeof canary, "%s/canary", emulator.dir);
    FILE *file = fopen(canary, "w");
    fputs("host", file);
    fclose(file);
    snprintf(command, sizeof command,
             "ln -sfn %s /workspace/out; ln -sfn /proc/1/root /workspace/root; ln -sfn / "
             "/workspace/top; ln -sfn loop /workspace/loop",
             emulator.dir);
    CLEANUP_REPLY struct reply prepare = shell(command);
    static const char *const reads[] = {"/workspace/out/canary", "/workspace/loop"};
    for (size_t i = 0; i < 2; i++) {
        char body[128];
        snprintf(body, sizeof body, "[\"%s\"]", reads[i]);
        CLEANUP_REPLY struct reply r = method("readFile", body);
        ASSERTm(reads[i], r.status >= 400);
    }
    CLEANUP_REPLY struct reply w = method("writeFile", "[\"/workspace/out/canary\", \"sandbox\"]");
    snprintf(command, sizeof command, "[\"/workspace/top%s/canary\", \"sandbox\"]", emulator.dir);
    CLEANUP_REPLY struct reply w2 = method("writeFile", command);
    char got[16] = "";
    file = fopen(canary, "r");
    if (fgets(got, sizeof got, file) == NULL)
        got[0] = '\0';
    fclose(file);
    ASSERT_STR_EQ("host", got);
    PASS();
}

TEST special_files_neither_hang_nor_fill_memory(void)
{
    CLEANUP_REPLY struct reply prepare = shell("mkfifo /workspace/fifo");
    static const char *const paths[] = {"/workspace/fifo", "/dev/zero", "/dev/tty", "/proc/kmsg"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"path\":\"%s\"}", paths[i]);
        CLEANUP_REPLY struct reply r = face("/api/read", body);
        ASSERTm(paths[i], r.status >= 400);
        snprintf(body, sizeof body, "{\"path\":\"%s\",\"content\":\"x\"}", paths[i]);
        CLEANUP_REPLY struct reply w = face("/api/write", body);
        ASSERTm(paths[i], w.status != 0);
    }
    CLEANUP_REPLY struct reply after = shell("echo alive");
    ASSERT_STR_EQ("alive", text_at(after.json, "stdout"));
    PASS();
}

TEST a_full_layer_is_an_error_and_the_server_goes_on(void)
{
    CLEANUP_REPLY struct reply fill =
        post(&emulator, "/sandbox/full/exec", "[\"head -c 600M /dev/zero > /workspace/big\"]");
    ASSERT(number_at(fill.json, "exitCode") != 0);
    char *body = malloc(1 << 20);
    memset(body, 'x', 1 << 20);
    memcpy(body, "[\"/workspace/more.txt\", \"", 25);
    memcpy(body + (1 << 20) - 3, "\"]", 3);
    CLEANUP_REPLY struct reply w = post(&emulator, "/sandbox/full/writeFile", body);
    free(body);
    ASSERT_EQ(500, w.status);
    ASSERT_STR_EQ("NO_SPACE", text_at(w.json, "code"));
    CLEANUP_REPLY struct reply free_ =
        post(&emulator, "/sandbox/full/exec", "[\"rm /workspace/big; echo ok\"]");
    ASSERT_STR_EQ("ok", text_at(free_.json, "stdout"));
    PASS();
}

SUITE(files_suite)
{
    RUN_TEST(a_text_written_is_read_back_with_its_kind);
    RUN_TEST(bytes_written_as_base64_come_back_as_base64);
    RUN_TEST(parents_are_made_and_a_directory_is_refused);
    RUN_TEST(a_missing_file_is_404_on_every_face);
    RUN_TEST(deleting_listing_and_renaming_have_the_codes_of_the_original);
    RUN_TEST(rename_and_move_act_as_mv);
    RUN_TEST(a_listing_has_every_fact_of_an_entry);
    RUN_TEST(the_first_call_on_files_waits_for_no_shell_and_is_followed_by_one);
    RUN_TEST(exists_follows_links);
    RUN_TEST(relative_paths_start_at_the_sessions_directory);
    RUN_TEST(a_megabyte_with_every_escape_comes_back_the_same);
    RUN_TEST(files_over_32_mib_are_413);
    RUN_TEST(a_read_stream_has_metadata_chunks_and_an_end);
    RUN_TEST(kinds_are_told_by_extension_then_by_content);
    RUN_TEST(paths_that_cannot_be_are_refused_alike);
    RUN_TEST(links_never_lead_out_of_the_sandbox);
    RUN_TEST(special_files_neither_hang_nor_fill_memory);
    RUN_TEST(a_full_layer_is_an_error_and_the_server_goes_on);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    SYSTEM_SUITE(emulator, files_suite);
    GREATEST_MAIN_END();
}
