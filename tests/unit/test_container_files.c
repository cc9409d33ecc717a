/* Files, against a real container (PROTOCOL D, R; ABUSE C). */
#include "container_client.h"
#include "greatest.h"

#define TOKEN "__DISABLE_SESSION__"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (!value)
        fprintf(stderr, "bad test: %s\n", text);
    return value;
}

static struct reply write_file(const char *path, const char *content)
{
    return call("write", json_pack("{s:s,s:s}", "path", path, "content", content));
}

static struct reply on_path(const char *op, const char *path)
{
    return call(op, json_pack("{s:s}", "path", path));
}

/* The body with its content, as a client would get it. */
static int add_content(void *arg, struct buf *to)
{
    struct reply *reply = arg;
    return reply->form == CONTENT_BASE64
               ? base64_encode(to, reply->content.data, reply->content.size)
               : jsonstr_escape(to, buf_text(&reply->content), reply->content.size);
}

static const char *wire(struct reply *reply)
{
    static struct buf text = BUF_INIT(64 << 20);
    buf_clear(&text);
    if (json_object_get(reply->body, "timestamp"))
        json_object_set_new(reply->body, "timestamp", json_string("T"));
    if (reply->body)
        json_write(&text, reply->body, reply->form ? add_content : NULL, reply);
    return buf_text(&text);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

/* A stream to its end. */
static char *take_all(struct reply *reply)
{
    struct buf all = BUF_INIT(256 << 20);
    char piece[4096];
    long got;
    while ((got = stream_take(reply->stream, piece, sizeof piece)) >= 0) {
        buf_add(&all, piece, (size_t)got);
        if (got > 0)
            continue;
        /* Nothing there: the source needs the loop. */
        struct task stop = {.run = stop_loop, .arg = bench.loop};
        loop_defer(bench.loop, &stop);
        loop_run(bench.loop, NULL);
        loop_cancel(bench.loop, &stop);
    }
    return buf_steal(&all);
}

TEST write_and_read_answer_as_observed(void)
{
    NEED_CONTAINER();
    REPLY deep = write_file("/workspace/new/deep/b.json", "{}");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/new/deep/b.json\",\"timestamp\":\"T\"}",
                  wire(&deep));
    REPLY text = write_file("/workspace/a.txt", "h\xc3\xa9llo\n");
    REPLY read = on_path("read", "/workspace/a.txt");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/a.txt\",\"content\":\"h\xc3\xa9llo\\n\","
                  "\"timestamp\":\"T\",\"encoding\":\"utf-8\",\"isBinary\":false,"
                  "\"mimeType\":\"text/plain\",\"size\":7}",
                  wire(&read));
    REPLY as64 = call("read", parse("{\"path\":\"/workspace/a.txt\",\"encoding\":\"base64\"}"));
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/a.txt\",\"content\":\"aMOpbGxvCg==\","
                  "\"timestamp\":\"T\",\"encoding\":\"base64\",\"isBinary\":true,"
                  "\"mimeType\":\"text/plain\",\"size\":7}",
                  wire(&as64));
    REPLY png = call("write", parse("{\"path\":\"/workspace/bin.png\",\"encoding\":\"base64\","
                                    "\"content\":\"iVBORw0KGgo=\"}"));
    REPLY back = on_path("read", "/workspace/bin.png");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/bin.png\",\"content\":\"iVBORw0KGgo=\","
                  "\"timestamp\":\"T\",\"encoding\":\"base64\",\"isBinary\":true,"
                  "\"mimeType\":\"image/png\",\"size\":8}",
                  wire(&back));
    PASS();
}

TEST reading_what_is_missing_or_a_directory_is_not_found(void)
{
    NEED_CONTAINER();
    REPLY missing = on_path("read", "/workspace/missing");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&missing));
    ASSERT_STR_EQ("File not found: /workspace/missing", missing.message);
    ASSERT_STR_EQ("{\"path\":\"/workspace/missing\",\"operation\":\"file.read\"}", wire(&missing));
    ASSERT_STR_EQ("file.read", missing.operation);
    REPLY directory = on_path("read", "/workspace");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&directory));
    PASS();
}

TEST a_file_over_32_mib_is_refused_with_its_size(void)
{
    NEED_CONTAINER();
    prepare_with("truncate -s 34000000 /workspace/big; truncate -s 33554432 /workspace/limit.png;"
                 "truncate -s 1T /workspace/sparse");
    REPLY big = on_path("read", "/workspace/big");
    ASSERT_STR_EQ("FILE_TOO_LARGE", code_name(&big));
    ASSERT_STR_EQ(
        "{\"path\":\"/workspace/big\",\"operation\":\"file.read\",\"actualSize\":34000000,"
        "\"maxSize\":33554432}",
        wire(&big));
    REPLY sparse = on_path("read", "/workspace/sparse");
    ASSERT_STR_EQ("FILE_TOO_LARGE", code_name(&sparse));
    REPLY limit = on_path("read", "/workspace/limit.png");
    ASSERT_EQ(CODE_OK, limit.code);
    ASSERT_EQ(33554432, (int)limit.content.size);
    PASS();
}

TEST types_without_an_extension_come_from_the_content(void)
{
    NEED_CONTAINER();
    prepare_with("cd /workspace; : >empty; echo text >noext; printf '\\1\\2\\3\\4' >four;"
                 "printf '\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR' >picture; cp noext ./-b");
    static const char *const cases[][3] = {
        {"/workspace/empty", "inode/x-empty", "utf-8"},
        {"/workspace/noext", "text/plain", "utf-8"},
        {"/workspace/four", "application/octet-stream", "base64"},
        {"/workspace/picture", "image/png", "base64"},
        {"/proc/version", "inode/x-empty", "utf-8"},
        {"-b", "text/plain", "utf-8"},
        {"noext", "text/plain", "utf-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY reply = on_path("read", cases[i][0]);
        ASSERT_STR_EQm(cases[i][0], cases[i][1], member(&reply, "mimeType"));
        ASSERT_STR_EQm(cases[i][0], cases[i][2], member(&reply, "encoding"));
    }
    REPLY proc = on_path("read", "/proc/version");
    ASSERT(proc.content.size > 10);
    PASS();
}

TEST special_files_are_refused_without_waiting(void)
{
    NEED_CONTAINER();
    prepare_with("mkfifo /workspace/fifo; python3 -c 'import socket;"
                 "socket.socket(socket.AF_UNIX).bind(\"/workspace/sock\")'");
    static const char *const paths[] = {"/workspace/fifo", "/workspace/sock", "/dev/zero",
                                        "/dev/null"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        double start = now_ms();
        REPLY read = on_path("read", paths[i]);
        ASSERT_STR_EQm(paths[i], "FILESYSTEM_ERROR", code_name(&read));
        REPLY written = write_file(paths[i], "x");
        ASSERT_STR_EQm(paths[i], "FILESYSTEM_ERROR", code_name(&written));
        REPLY stream = on_path("readStream", paths[i]);
        CLEANUP_FREE char *said = take_all(&stream);
        ASSERT(strstr(said, "\"type\":\"error\""));
        ASSERT(now_ms() - start < 500);
    }
    PASS();
}

TEST links_are_resolved_inside_the_container(void)
{
    NEED_CONTAINER();
    char host[64] = "/tmp/sandpit-canary-XXXXXX";
    int fd = mkstemp(host);
    ASSERT(fd >= 0 && write(fd, "host", 4) == 4);
    close(fd);
    char command[512];
    snprintf(command, sizeof command,
             "cd /workspace; ln -s %s final; ln -s /tmp middle; ln -s /proc/self/root root;"
             "ln -s loop loop; ln -s ../../../../../../etc/hostname up",
             host);
    prepare_with(command);
    REPLY final = on_path("read", "/workspace/final");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&final));
    snprintf(command, sizeof command, "/workspace/middle/%s", host + 5);
    REPLY middle = on_path("read", command);
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&middle));
    snprintf(command, sizeof command, "/workspace/root%s", host);
    REPLY root = on_path("read", command);
    ASSERT(root.code != CODE_OK);
    REPLY overwritten = write_file(command, "sandbox");
    REPLY through = write_file("/workspace/final", "sandbox");
    REPLY loop = on_path("read", "/workspace/loop");
    ASSERT_STR_EQ("TOO_MANY_LINKS", code_name(&loop));
    ASSERT(strstr(loop.message, "ELOOP"));
    REPLY up = on_path("read", "/workspace/up");
    ASSERT(strncmp("box", buf_text(&up.content), 3) == 0);
    FILE *canary = fopen(host, "r");
    char text[16] = "";
    ASSERT(canary && fgets(text, sizeof text, canary));
    fclose(canary);
    unlink(host);
    ASSERT_STR_EQ("host", text);
    PASS();
}

TEST paths_are_checked(void)
{
    NEED_CONTAINER();
    static const char *const cases[] = {
        "{\"path\":\"\"}",
        "{\"path\":\"/tmp/a\\u0000b\"}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REPLY reply = call("read", parse(cases[i]));
        ASSERT_STR_EQ("VALIDATION_FAILED", code_name(&reply));
        json_t *first = json_array_get(json_object_get(reply.body, "validationErrors"), 0);
        ASSERT_STR_EQ("path", json_string_value(json_object_get(first, "field")));
        ASSERT_STR_EQ("INVALID_PATH", json_string_value(json_object_get(first, "code")));
        ASSERT(strstr(reply.message, "Invalid path format for '"));
    }
    char path[5000];
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[4097] = '\0';
    REPLY over = on_path("exists", path);
    ASSERT_STR_EQ("VALIDATION_FAILED", code_name(&over));
    path[4096] = '\0';
    REPLY kernel = on_path("read", path);
    ASSERT_STR_EQ("NAME_TOO_LONG", code_name(&kernel));
    path[256] = '\0';
    REPLY name = write_file(path, "x");
    ASSERT_EQ(CODE_OK, name.code);
    REPLY gone = on_path("delete", path);
    ASSERT_EQ(CODE_OK, gone.code);
    REPLY pair = call("rename", parse("{\"oldPath\":\"\",\"newPath\":\"x\"}"));
    ASSERT_STR_EQ("SECURITY_VALIDATION_FAILED", code_name(&pair));
    REPLY number = call("read", parse("{\"path\":5}"));
    ASSERT_STR_EQ("VALIDATION_FAILED", code_name(&number));
    REPLY blank = call("read", parse("{\"path\":\"/x\",\"sessionId\":\" \"}"));
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&blank));
    PASS();
}

TEST relative_paths_start_where_the_session_is(void)
{
    NEED_CONTAINER();
    prepare_with("mkdir -p /tmp/rel");
    REPLY cd = run_in("cd /tmp/rel", "rel");
    REPLY put = call("write",
                     parse("{\"path\":\"sub/x\",\"content\":\"some text\",\"sessionId\":\"rel\"}"));
    ASSERT_EQ(CODE_OK, put.code);
    ASSERT_STR_EQ("sub/x", member(&put, "path"));
    REPLY got = on_path("read", "/tmp/rel/sub/x");
    ASSERT_STR_EQ("some text", buf_text(&got.content));
    REPLY same = call("read", parse("{\"path\":\"sub/x\",\"sessionId\":\"rel\"}"));
    ASSERT_STR_EQ("text/plain", member(&same, "mimeType"));
    REPLY away = call("exists", parse("{\"path\":\"sub/x\",\"sessionId\":\"" TOKEN "\"}"));
    ASSERT(json_is_false(json_object_get(away.body, "exists")));
    PASS();
}

TEST relative_paths_wait_for_the_session_and_absolute_ones_do_not(void)
{
    NEED_CONTAINER();
    struct reply slow, relative, absolute;
    ask(&slow, "execute", command_args("sleep 0.3; cd /tmp; echo late > /tmp/late", "wait"));
    ask(&relative, "read", parse("{\"path\":\"late\",\"sessionId\":\"wait\"}"));
    ask(&absolute, "exists", parse("{\"path\":\"/tmp\",\"sessionId\":\"wait\"}"));
    await(&absolute);
    ASSERT_FALSE(slow.done);
    await_all();
    ASSERT_STR_EQ("late\n", buf_text(&relative.content));
    reply_free(&slow);
    reply_free(&relative);
    reply_free(&absolute);
    PASS();
}

TEST writing_replaces_and_keeps_the_mode(void)
{
    NEED_CONTAINER();
    prepare_with("cd /workspace; echo a long old text >script; chmod 755 script");
    REPLY put = write_file("/workspace/script", "new");
    REPLY look = run_in("stat -c '%a %s' /workspace/script; stat -c %a /workspace/a.txt", TOKEN);
    ASSERT_STR_EQ("755 3\n644\n", member(&look, "stdout"));
    REPLY empty = write_file("/workspace/script", "");
    REPLY size = run_in("stat -c %s /workspace/script", TOKEN);
    ASSERT_STR_EQ("0\n", member(&size, "stdout"));
    PASS();
}

TEST any_other_encoding_is_text(void)
{
    NEED_CONTAINER();
    REPLY put = call("write", parse("{\"path\":\"/workspace/enc.txt\",\"content\":\"6869\","
                                    "\"encoding\":\"hex\"}"));
    ASSERT_EQ(CODE_OK, put.code);
    REPLY got = call("read", parse("{\"path\":\"/workspace/enc.txt\",\"encoding\":\"hex\"}"));
    ASSERT_STR_EQ("6869", buf_text(&got.content));
    ASSERT_EQ(CONTENT_TEXT, got.form);
    prepare_with("printf 'a\\xffb' > /workspace/bad.png");
    REPLY forced =
        call("read", parse("{\"path\":\"/workspace/bad.png\",\"encoding\":\"utf8\"}"));
    ASSERT(strstr(wire(&forced), "\"content\":\"a\xef\xbf\xbd"
                                 "b\",\"timestamp\":\"T\",\"encoding\":\"utf-8\",\"isBinary\":false,"
                                 "\"mimeType\":\"image/png\",\"size\":3}"));
    PASS();
}

TEST a_write_that_fails_says_why(void)
{
    NEED_CONTAINER();
    REPLY directory = write_file("/workspace", "x");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&directory));
    ASSERT_STR_EQ("Failed to write file '/workspace': EISDIR: illegal operation on a directory, "
                  "open '/workspace'",
                  directory.message);
    ASSERT_STR_EQ(
        "{\"path\":\"/workspace\",\"operation\":\"file.write\",\"stderr\":\"EISDIR: illegal "
        "operation on a directory, open '/workspace'\"}",
        wire(&directory));
    REPLY base64 = call("write", parse("{\"path\":\"/workspace/a.txt\",\"content\":\"!!!\","
                                       "\"encoding\":\"base64\"}"));
    ASSERT_STR_EQ("{\"validationErrors\":[{\"field\":\"content\",\"message\":\"Invalid base64 "
                  "characters\",\"code\":\"INVALID_BASE64\"}]}",
                  wire(&base64));
    REPLY missing = on_path("write", "/workspace/a.txt");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&missing));
    /* Nothing of this touched the file. */
    REPLY still = on_path("read", "/workspace/a.txt");
    ASSERT_EQ(7, (int)still.content.size);
    PASS();
}

/* Gives the literal as the front door does. */
static struct reply write_literal(const char *path, const char *encoding, const char *inside,
                                  size_t size)
{
    struct reply *reply = calloc(1, sizeof *reply);
    json_t *args = json_pack("{s:s,s:n,s:s}", "path", path, "content", "encoding", encoding);
    *reply = (struct reply){.args = args};
    reply->call = (struct call){
        .args = args, .content = inside, .content_size = size, .done = reply_done, .arg = reply};
    bench.waiting++;
    container_call(bench.container, container_op("write"), &reply->call);
    await_all();
    struct reply copy = *reply;
    free(reply);
    return copy;
}

TEST large_content_is_decoded_on_its_way(void)
{
    NEED_CONTAINER();
    enum { REPEAT = 300000 };
    struct buf text = BUF_INIT(64 << 20);
    for (int i = 0; i < REPEAT; i++)
        buf_adds(&text, "h\\u00e9\\n\\\"\xc3\xa9");
    REPLY put = write_literal("/workspace/large.txt", "utf-8", text.data, text.size);
    ASSERT_EQ(CODE_OK, put.code);
    REPLY got = on_path("read", "/workspace/large.txt");
    ASSERT_EQ(REPEAT * 7, (int)got.content.size);
    ASSERT(memcmp(got.content.data + got.content.size - 7, "h\xc3\xa9\n\"\xc3\xa9", 7) == 0);
    buf_clear(&text);
    base64_encode(&text, got.content.data, got.content.size);
    REPLY put64 = write_literal("/workspace/large64.txt", "base64", text.data, text.size);
    ASSERT_EQ(CODE_OK, put64.code);
    REPLY same = run_in("cd /workspace; cmp large.txt large64.txt && echo same", TOKEN);
    ASSERT_STR_EQ("same\n", member(&same, "stdout"));
    buf_free(&text);
    PASS();
}

TEST bad_literals_lose_nothing(void)
{
    NEED_CONTAINER();
    REPLY before = write_file("/workspace/keep.txt", "keep");
    static const char *const texts[] = {"good \\x", "lone \\ud800", "a\nb", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        REPLY put = write_literal("/workspace/keep.txt", "utf-8", texts[i], strlen(texts[i]));
        ASSERT_STR_EQm(texts[i], "VALIDATION_FAILED", code_name(&put));
    }
    static const char *const base64[] = {"a=bc", "ab!d", "\\u00e9", "ab\\q"};
    for (size_t i = 0; i < sizeof base64 / sizeof *base64; i++) {
        REPLY put = write_literal("/workspace/keep.txt", "base64", base64[i], strlen(base64[i]));
        ASSERT_STR_EQm(base64[i], "VALIDATION_FAILED", code_name(&put));
    }
    REPLY after = on_path("read", "/workspace/keep.txt");
    ASSERT_STR_EQ("keep", buf_text(&after.content));
    static const char *const lenient[][2] = {{"aGk=", "hi"}, {"aGk", "hi"},
                                             {"aA==", "h"},  {"aA", "h"},
                                             {"", ""},       {"\\/\\/8=", "\xff\xff"}};
    for (size_t i = 0; i < sizeof lenient / sizeof *lenient; i++) {
        REPLY put =
            write_literal("/workspace/len.bin", "base64", lenient[i][0], strlen(lenient[i][0]));
        ASSERT_EQm(lenient[i][0], CODE_OK, put.code);
        REPLY got = on_path("read", "/workspace/len.bin");
        ASSERT_STR_EQ(lenient[i][1], buf_text(&got.content));
    }
    PASS();
}

TEST a_full_disk_is_told_as_such(void)
{
    NEED_CONTAINER();
    prepare_with("head -c 300000000 /dev/zero > /workspace/filler; true");
    struct buf text = BUF_INIT(64 << 20);
    for (int i = 0; i < 1000000; i++)
        buf_adds(&text, "0123456789");
    REPLY put = write_literal("/workspace/more", "utf-8", text.data, text.size);
    buf_free(&text);
    prepare_with("rm -f /workspace/filler /workspace/more");
    ASSERT_STR_EQ("NO_SPACE", code_name(&put));
    ASSERT(strstr(put.message, "ENOSPC: no space left on device, write"));
    PASS();
}

/* Streams. */

TEST read_stream_answers_as_observed(void)
{
    NEED_CONTAINER();
    REPLY text = on_path("readStream", "/workspace/a.txt");
    CLEANUP_FREE char *said = take_all(&text);
    ASSERT_STR_EQ("data: {\"type\":\"metadata\",\"mimeType\":\"text/plain\",\"size\":7,"
                  "\"isBinary\":false,\"encoding\":\"utf-8\"}\n\n"
                  "data: {\"type\":\"chunk\",\"data\":\"h\xc3\xa9llo\\n\"}\n\n"
                  "data: {\"type\":\"complete\",\"bytesRead\":7}\n\n",
                  said);
    REPLY missing = on_path("readStream", "/workspace/missing");
    CLEANUP_FREE char *error = take_all(&missing);
    ASSERT_STR_EQ("data: {\"type\":\"error\",\"error\":\"File not found: /workspace/missing\"}\n\n",
                  error);
    REPLY empty = on_path("readStream", "/workspace/empty");
    CLEANUP_FREE char *nothing = take_all(&empty);
    ASSERT_STR_EQ("data: {\"type\":\"metadata\",\"mimeType\":\"inode/x-empty\",\"size\":0,"
                  "\"isBinary\":false,\"encoding\":\"utf-8\"}\n\n"
                  "data: {\"type\":\"complete\",\"bytesRead\":0}\n\n",
                  nothing);
    REPLY bad = on_path("readStream", "");
    CLEANUP_FREE char *why = take_all(&bad);
    ASSERT(strstr(why, "Invalid path format for ''"));
    PASS();
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    while ((text = strstr(text, what))) {
        count++;
        text += strlen(what);
    }
    return count;
}

TEST binary_pieces_are_65535_bytes(void)
{
    NEED_CONTAINER();
    prepare_with("head -c 140000 /dev/zero > /workspace/zeros.bin");
    REPLY stream = on_path("readStream", "/workspace/zeros.bin");
    CLEANUP_FREE char *said = take_all(&stream);
    ASSERT_EQ(3, count_of(said, "\"type\":\"chunk\""));
    ASSERT(strstr(said, "{\"type\":\"complete\",\"bytesRead\":140000}"));
    const char *data = strstr(said, "\"data\":\"") + 8;
    ASSERT_EQ(87380, (int)(strchr(data, '"') - data));
    PASS();
}

TEST text_pieces_never_split_a_character(void)
{
    NEED_CONTAINER();
    prepare_with("python3 -c 'print(\"a\" + \"\\u20ac\" * 60000, end=\"\")' > /workspace/euro.txt;"
                 "printf 'cut\\xe2\\x82' > /workspace/cut.txt");
    REPLY stream = on_path("readStream", "/workspace/euro.txt");
    CLEANUP_FREE char *said = take_all(&stream);
    ASSERT_EQ(60000, count_of(said, "\xe2\x82\xac"));
    ASSERT_EQ(0, count_of(said, "\xef\xbf\xbd"));
    ASSERT(strstr(said, "\"bytesRead\":180001"));
    REPLY cut = on_path("readStream", "/workspace/cut.txt");
    CLEANUP_FREE char *tail = take_all(&cut);
    ASSERT_EQ(1, count_of(tail, "\xef\xbf\xbd"));
    PASS();
}

TEST a_reader_that_leaves_ends_the_stream(void)
{
    NEED_CONTAINER();
    prepare_with("head -c 20000000 /dev/zero > /workspace/zeros.bin");
    REPLY stream = on_path("readStream", "/workspace/zeros.bin");
    char piece[1000];
    ASSERT(stream_take(stream.stream, piece, sizeof piece) >= 0);
    stream_abort(steal_pointer(&stream.stream));
    REPLY whole = on_path("readStream", "/workspace/zeros.bin");
    CLEANUP_FREE char *said = take_all(&whole);
    ASSERT(strstr(said, "\"bytesRead\":20000000"));
    PASS();
}

/* Others. */

TEST mkdir_answers_as_observed(void)
{
    NEED_CONTAINER();
    REPLY made = on_path("mkdir", "/workspace/d1");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/d1\",\"recursive\":false,"
                  "\"timestamp\":\"T\"}",
                  wire(&made));
    REPLY again = on_path("mkdir", "/workspace/d1");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&again));
    ASSERT_STR_EQ("mkdir operation failed with exit code 1", again.message);
    ASSERT_STR_EQ("{\"path\":\"/workspace/d1\",\"options\":{},\"exitCode\":1,\"stderr\":\"mkdir: "
                  "cannot create directory ‘/workspace/d1’: File exists\"}",
                  wire(&again));
    REPLY parents = call("mkdir", parse("{\"path\":\"/workspace/x/y/z\",\"recursive\":true}"));
    ASSERT_EQ(CODE_OK, parents.code);
    REPLY twice = call("mkdir", parse("{\"path\":\"/workspace/x/y/z\",\"recursive\":true}"));
    ASSERT_EQ(CODE_OK, twice.code);
    REPLY without = on_path("mkdir", "/workspace/p/q");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&without));
    PASS();
}

TEST delete_answers_as_observed(void)
{
    NEED_CONTAINER();
    REPLY put = write_file("/workspace/del", "x");
    REPLY gone = on_path("delete", "/workspace/del");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/del\",\"timestamp\":\"T\"}",
                  wire(&gone));
    REPLY missing = on_path("delete", "/workspace/del");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&missing));
    ASSERT_STR_EQ("file.delete", missing.operation);
    REPLY made = call("mkdir", parse("{\"path\":\"/workspace/dir\",\"recursive\":true}"));
    REPLY directory = on_path("delete", "/workspace/dir");
    ASSERT_STR_EQ("IS_DIRECTORY", code_name(&directory));
    ASSERT(strstr(directory.message, "Cannot delete directory"));
    ASSERT(strstr(directory.message, "deleteFile()"));
    PASS();
}

TEST exists_follows_links(void)
{
    NEED_CONTAINER();
    prepare_with("cd /workspace; ln -sf nowhere dangling; ln -sf a.txt good");
    REPLY good = on_path("exists", "/workspace/good");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/good\",\"exists\":true,"
                  "\"timestamp\":\"T\"}",
                  wire(&good));
    REPLY dangling = on_path("exists", "/workspace/dangling");
    ASSERT(json_is_false(json_object_get(dangling.body, "exists")));
    PASS();
}

static struct reply move_file(const char *op, const char *from, const char *to)
{
    bool move = strcmp(op, "move") == 0;
    return call(op, json_pack("{s:s,s:s}", move ? "sourcePath" : "oldPath", from,
                              move ? "destinationPath" : "newPath", to));
}

TEST rename_and_move_are_mv(void)
{
    NEED_CONTAINER();
    prepare_with("cd /workspace; rm -rf m; mkdir -p m/dir m/full/sub; echo 1 >m/a; echo 2 >m/b;"
                 "mkdir m/sub");
    REPLY renamed = move_file("rename", "/workspace/m/a", "/workspace/m/c");
    ASSERT_STR_EQ("{\"success\":true,\"path\":\"/workspace/m/a\",\"newPath\":\"/workspace/m/c\","
                  "\"timestamp\":\"T\"}",
                  wire(&renamed));
    REPLY into = move_file("move", "/workspace/m/c", "/workspace/m/dir");
    ASSERT_EQ(CODE_OK, into.code);
    REPLY look = on_path("exists", "/workspace/m/dir/c");
    ASSERT(json_is_true(json_object_get(look.body, "exists")));
    REPLY over = move_file("move", "/workspace/m/dir/c", "/workspace/m/b");
    ASSERT_EQ(CODE_OK, over.code);
    REPLY missing = move_file("rename", "/workspace/m/none", "/workspace/m/x");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&missing));
    ASSERT_STR_EQ("Source file not found: /workspace/m/none", missing.message);
    ASSERT_STR_EQ("file.rename", missing.operation);
    REPLY nowhere = move_file("move", "/workspace/m/b", "/workspace/m/no/such");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&nowhere));
    ASSERT_STR_EQ(
        "{\"oldPath\":\"/workspace/m/b\",\"newPath\":\"/workspace/m/no/such\",\"exitCode\":1,"
        "\"stderr\":\"mv: cannot move ‘/workspace/m/b’ to ‘/workspace/m/no/such’: "
        "No such file or directory\"}",
        wire(&nowhere));
    REPLY full = move_file("move", "/workspace/m/sub", "/workspace/m/full");
    ASSERT_EQ(CODE_OK, full.code); /* an empty directory gives way */
    REPLY itself = move_file("move", "/workspace/m/dir", "/workspace/m/dir");
    ASSERT_STR_EQ("FILESYSTEM_ERROR", code_name(&itself));
    PASS();
}

TEST moving_to_another_file_system_copies(void)
{
    NEED_CONTAINER();
    prepare_with("cd /workspace; mkdir -p far/in; echo x > far/in/f; rm -rf /dev/shm/far");
    REPLY far = move_file("move", "/workspace/far", "/dev/shm/far");
    ASSERT_EQ(CODE_OK, far.code);
    REPLY cd = run_in("cd /dev/shm", "far");
    REPLY back = call("rename", parse("{\"oldPath\":\"far/in/f\",\"newPath\":\"/workspace/f\","
                                      "\"sessionId\":\"far\"}"));
    ASSERT_EQ(CODE_OK, back.code);
    REPLY got = on_path("read", "/workspace/f");
    ASSERT_STR_EQ("x\n", buf_text(&got.content));
    /* A directory of the lower layer cannot be renamed on an overlay. */
    REPLY lower = move_file("move", "/usr/share/doc/bash", "/workspace/doc");
    ASSERT(lower.code == CODE_OK || lower.code == CODE_FILE_NOT_FOUND ||
           lower.code == CODE_FILESYSTEM_ERROR);
    PASS();
}

TEST listings_answer_as_observed(void)
{
    NEED_CONTAINER();
    prepare_with("rm -rf /workspace/l; mkdir -p /workspace/l/.h/in /workspace/l/d; cd /workspace/l;"
                 "printf 123456789012345 >noext; chmod 755 noext;"
                 "touch -d '2026-11-18T06:08:36.845182690Z' noext; : >.hidden; : >.h/in/seen;"
                 ": >d/x; ln -s noext link; : >\"$(printf 'tab\\tname')\"; mkfifo pipe;"
                 ": >\"$(printf 'bad\\xff')\"");
    REPLY flat = on_path("listFiles", "/workspace/l");
    ASSERT_EQ(CODE_OK, flat.code);
    const char *text = wire(&flat);
    ASSERT(strstr(text,
                  "{\"name\":\"noext\",\"absolutePath\":\"/workspace/l/noext\",\"relativePath\":"
                  "\"noext\",\"type\":\"file\",\"size\":15,\"modifiedAt\":"
                  "\"2026-11-18T06:08:36.8451826900\",\"mode\":\"rwxr-xr-x\",\"permissions\":"
                  "{\"readable\":true,\"writable\":true,\"executable\":true}}"));
    ASSERT(strstr(text, "\"name\":\"link\",\"absolutePath\":\"/workspace/l/link\","
                        "\"relativePath\":\"link\",\"type\":\"symlink\",\"size\":5"));
    ASSERT(strstr(text, "\"name\":\"d\",") && strstr(text, "\"type\":\"directory\""));
    ASSERT(strstr(text, "\"name\":\"pipe\",") && strstr(text, "\"type\":\"other\""));
    ASSERT(strstr(text, "\"name\":\"bad\xef\xbf\xbd\""));
    ASSERT_FALSE(strstr(text, "\"name\":\"tab"));
    ASSERT_FALSE(strstr(text, "hidden"));
    ASSERT(strstr(text, "\"count\":5,\"timestamp\":\"T\"}"));
    REPLY all =
        call("listFiles", parse("{\"path\":\"/workspace/l/\",\"options\":{\"recursive\":true,"
                                "\"includeHidden\":true}}"));
    text = wire(&all);
    ASSERT(strstr(text, "\"absolutePath\":\"/workspace/l/.h/in/seen\","
                        "\"relativePath\":\".h/in/seen\""));
    ASSERT(strstr(text, "\"name\":\".hidden\""));
    REPLY deep =
        call("listFiles", parse("{\"path\":\"/workspace/l\",\"options\":{\"recursive\":true}}"));
    text = wire(&deep);
    ASSERT(strstr(text, "\"name\":\"seen\"") && strstr(text, "\"relativePath\":\"d/x\""));
    ASSERT_FALSE(strstr(text, "\"name\":\".h\""));
    PASS();
}

TEST listing_errors_answer_as_observed(void)
{
    NEED_CONTAINER();
    REPLY missing = on_path("listFiles", "/workspace/none");
    ASSERT_STR_EQ("FILE_NOT_FOUND", code_name(&missing));
    ASSERT_STR_EQ("Directory not found: /workspace/none", missing.message);
    ASSERT_STR_EQ("directory.list", missing.operation);
    REPLY file = on_path("listFiles", "/workspace/a.txt");
    ASSERT_STR_EQ("NOT_DIRECTORY", code_name(&file));
    ASSERT(strstr(file.message, "not a directory"));
    REPLY cd = run_in("cd /workspace/l", "lister");
    REPLY dot = call("listFiles", parse("{\"path\":\".\",\"sessionId\":\"lister\"}"));
    ASSERT(strstr(wire(&dot), "\"absolutePath\":\"./noext\",\"relativePath\":\"noext\""));
    PASS();
}

TEST many_entries_are_listed(void)
{
    NEED_CONTAINER();
    prepare_with("mkdir /tmp/many; cd /tmp/many; python3 -c '\nimport os\n"
                 "for i in range(20000): os.mknod(str(i))'");
    REPLY many = on_path("listFiles", "/tmp/many");
    ASSERT_EQ(20000, (int)json_integer_value(json_object_get(many.body, "count")));
    prepare_with("rm -rf /tmp/many");
    PASS();
}

TEST a_deep_tree_can_be_listed(void)
{
    NEED_CONTAINER();
    prepare_with("python3 -c '\nimport os\nos.mkdir(\"/tmp/deep\")\nos.chdir(\"/tmp/deep\")\n"
                 "for i in range(3000):\n os.mkdir(\"d\")\n os.chdir(\"d\")'");
    REPLY deep =
        call("listFiles", parse("{\"path\":\"/tmp/deep\",\"options\":{\"recursive\":true}}"));
    ASSERT_EQ(3000, (int)json_integer_value(json_object_get(deep.body, "count")));
    prepare_with("rm -rf /tmp/deep");
    PASS();
}

TEST swapping_links_never_leads_outside(void)
{
    NEED_CONTAINER();
    char host[64] = "/tmp/sandpit-canary-XXXXXX";
    int fd = mkstemp(host);
    ASSERT(fd >= 0 && write(fd, "host", 4) == 4);
    close(fd);
    char command[400];
    snprintf(command, sizeof command,
             "mkdir -p /tmp/race/real; echo mine > /tmp/race/real/%s; cd /tmp/race;"
             "(i=0; while [ $i -lt 2000 ]; do ln -sfn real d; ln -sfn /tmp d; i=$((i+1)); done) &",
             host + 5);
    REPLY racing = run_in(command, "race");
    snprintf(command, sizeof command, "/tmp/race/d/%s", host + 5);
    for (int i = 0; i < 500; i++) {
        REPLY read = on_path("read", command);
        ASSERT(read.code != CODE_OK || strcmp(buf_text(&read.content), "host") != 0);
        REPLY put = write_file(command, "mine\n");
    }
    FILE *canary = fopen(host, "r");
    char text[16] = "";
    ASSERT(canary && fgets(text, sizeof text, canary));
    fclose(canary);
    unlink(host);
    ASSERT_STR_EQ("host", text);
    REPLY wait = run_in("wait", "race");
    PASS();
}

TEST operations_under_way_are_told_when_the_container_goes(void)
{
    NEED_CONTAINER();
    prepare_with("truncate -s 30000000 /workspace/zeros.bin; mkfifo /workspace/p;"
                 "mkdir -p /tmp/some; cd /tmp/some; touch {1..3000}");
    REPLY stream = on_path("readStream", "/workspace/zeros.bin");
    struct reply replies[4];
    ask(&replies[0], "listFiles", parse("{\"path\":\"/tmp/some\"}"));
    ask(&replies[1], "read", parse("{\"path\":\"/workspace/zeros.bin\"}"));
    ask(&replies[2], "move",
        parse("{\"sourcePath\":\"/workspace/zeros.bin\","
              "\"destinationPath\":\"/dev/shm/zeros\"}"));
    ask(&replies[3], "readStream", parse("{\"path\":\"/workspace/zeros.bin\"}"));
    container_kill(bench.container);
    while (bench.container)
        loop_run(bench.loop, NULL);
    ASSERT_EQ(0, bench.waiting_when_gone);
    for (int i = 0; i < 4; i++) {
        ASSERT(replies[i].done);
        ASSERT(replies[i].code == CODE_OK || replies[i].code == CODE_OPERATION_INTERRUPTED);
        reply_free(&replies[i]);
    }
    CLEANUP_FREE char *said = take_all(&stream);
    ASSERT(strstr(said, "\"type\":\"error\""));
    ASSERT(bench_start());
    PASS();
}

SUITE(container_files)
{
    RUN_TEST(write_and_read_answer_as_observed);
    RUN_TEST(reading_what_is_missing_or_a_directory_is_not_found);
    RUN_TEST(a_file_over_32_mib_is_refused_with_its_size);
    RUN_TEST(types_without_an_extension_come_from_the_content);
    RUN_TEST(special_files_are_refused_without_waiting);
    RUN_TEST(links_are_resolved_inside_the_container);
    RUN_TEST(paths_are_checked);
    RUN_TEST(relative_paths_start_where_the_session_is);
    RUN_TEST(relative_paths_wait_for_the_session_and_absolute_ones_do_not);
    RUN_TEST(writing_replaces_and_keeps_the_mode);
    RUN_TEST(any_other_encoding_is_text);
    RUN_TEST(a_write_that_fails_says_why);
    RUN_TEST(large_content_is_decoded_on_its_way);
    RUN_TEST(bad_literals_lose_nothing);
    RUN_TEST(a_full_disk_is_told_as_such);
    RUN_TEST(read_stream_answers_as_observed);
    RUN_TEST(binary_pieces_are_65535_bytes);
    RUN_TEST(text_pieces_never_split_a_character);
    RUN_TEST(a_reader_that_leaves_ends_the_stream);
    RUN_TEST(mkdir_answers_as_observed);
    RUN_TEST(delete_answers_as_observed);
    RUN_TEST(exists_follows_links);
    RUN_TEST(rename_and_move_are_mv);
    RUN_TEST(moving_to_another_file_system_copies);
    RUN_TEST(listings_answer_as_observed);
    RUN_TEST(listing_errors_answer_as_observed);
    RUN_TEST(many_entries_are_listed);
    RUN_TEST(a_deep_tree_can_be_listed);
    RUN_TEST(swapping_links_never_leads_outside);
    RUN_TEST(operations_under_way_are_told_when_the_container_goes);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    bench_open();
    RUN_SUITE(container_files);
    bench_close();
    GREATEST_MAIN_END();
}
