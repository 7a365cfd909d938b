// A host that loads the library, calls it, and closes it: nothing of the process is another one then.
#include <blockmill.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

// What a library could change in its host, as text.
static std::string state() {
    std::string text;
    auto add = [&text](const char *name, const void *bytes, size_t length) {
        text += std::string("\n") + name + " ";
        for (size_t index = 0; index < length; index++) {
            char byte[3];
            std::snprintf(byte, sizeof byte, "%02x", static_cast<const unsigned char *>(bytes)[index]);
            text += byte;
        }
    };
    auto address = [&add](const char *name) {
        void *found = dlsym(RTLD_DEFAULT, name);
        add(name, &found, sizeof found);
    };
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        std::memset(&action, 0, sizeof action);
        if (sigaction(number, nullptr, &action) == 0) {
            add(("signal " + std::to_string(number)).c_str(), &action.sa_handler, sizeof action.sa_handler);
            add("flags", &action.sa_flags, sizeof action.sa_flags);
        }
    }
    sigset_t mask;
    std::memset(&mask, 0, sizeof mask);
    sigprocmask(SIG_SETMASK, nullptr, &mask);
    add("mask", &mask, sizeof mask);
    stack_t stack;
    std::memset(&stack, 0, sizeof stack);
    sigaltstack(nullptr, &stack);
    add("stack of signals", &stack.ss_sp, sizeof stack.ss_sp);
    auto handler = std::get_new_handler();
    add("new-handler", &handler, sizeof handler);
    auto terminate = std::get_terminate();
    add("terminate", &terminate, sizeof terminate);
    text += std::string("\nlocale ") + std::setlocale(LC_ALL, nullptr);
    const int round = std::fegetround();
    add("rounding", &round, sizeof round);
    const int exceptions = std::fetestexcept(0);
    add("exceptions", &exceptions, sizeof exceptions);
    add("environment", &environ, sizeof environ);
    for (char **entry = environ; *entry != nullptr; entry++) {
        text += std::string("\n") + *entry;
    }
    for (int resource : {RLIMIT_AS, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_FSIZE}) {
        struct rlimit limit;
        getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limit);
        add("limit", &limit, sizeof limit);
    }
    const mode_t mode = umask(0);
    umask(mode);
    add("umask", &mode, sizeof mode);
    char folder[4096];
    text += std::string("\nfolder ") + (getcwd(folder, sizeof folder) ? folder : "none");
    // What other libraries find under these names.
    for (const char *name : {"malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "_Znwm",
                             "_ZdlPv", "_ZdlPvm", "_Znam", "__cxa_throw", "memcpy", "abort", "signal", "sigaction"}) {
        address(name);
    }
    int threads = 0;
    if (DIR *tasks = opendir("/proc/self/task")) {
        while (readdir(tasks) != nullptr) {
            threads++;
        }
        closedir(tasks);
    }
    add("threads", &threads, sizeof threads);
    return text;
}

static bool is_same(const char *when, const std::string &before) {
    const std::string after = state();
    if (after != before) {
        std::fprintf(stderr, "%s:\nbefore %s\nafter %s\n", when, before.c_str(), after.c_str());
    }
    return after == before;
}

int main(int count, char **arguments) {
    if (count < 2 || dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != nullptr) {
        return 2;
    }
    const std::string before = state();
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    bool all = is_same("loaded", before);
    auto validator_new =
        reinterpret_cast<decltype(&blockmill_validator_new)>(dlsym(library, "blockmill_validator_new"));
    auto validator_free =
        reinterpret_cast<decltype(&blockmill_validator_free)>(dlsym(library, "blockmill_validator_free"));
    auto verify = reinterpret_cast<decltype(&blockmill_verify_signatures)>(
        dlsym(library, "blockmill_verify_signatures"));
    for (int way : {BLOCKMILL_SIGNATURES_ONE_BY_ONE, BLOCKMILL_SIGNATURES_LANES, BLOCKMILL_SIGNATURES_FASTEST}) {
        blockmill_check checks[300];
        uint8_t holds[300];
        std::memset(checks, 0, sizeof checks);
        blockmill_validator *validator = validator_new(3, way);
        all = verify(validator, checks, 300, holds) == BLOCKMILL_OK && all;
        validator_free(validator);
        all = is_same("called", before) && all;
    }
    dlclose(library);
    return is_same("closed", before) && all ? 0 : 1;
}
