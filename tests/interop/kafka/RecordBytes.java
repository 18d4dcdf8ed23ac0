import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.*;

/** Prints messages of Kafka's own generated classes with random fields: CLASS VERSION HEX JSON. Arguments: SEED COUNT CLASS... */
public class RecordBytes {
    static Random random;

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[1]);
        for (String name : Arrays.asList(args).subList(2, args.length)) {
            Class<?> type = Class.forName(name);
            random = new Random(Long.parseLong(args[0]) + name.hashCode());
            Method json = Class.forName(name + "JsonConverter").getMethod("write", type, short.class, boolean.class);
            short last = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            for (short version = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null); version <= last; version++)
                for (int n = 0; n < count; n++) print(type, version, json);
        }
    }

    static void print(Class<?> type, short version, Method json) throws Exception {
        for (int attempt = 0; attempt < 1000; attempt++) {
            Message message = (Message) filled(type, attempt);
            try {
                if (type.getName().contains(".common.message."))
                    type.getMethod("setVersion", short.class).invoke(message, version);
            } catch (NoSuchMethodException e) { // its version is not one of its fields
            }
            try {
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
                message.write(new ByteBufferAccessor(bytes), cache, version);
                String hex = HexFormat.of().formatHex(bytes.array());
                Object text = json.invoke(null, message, version, true);
                System.out.println(type.getName() + "\t" + version + "\t" + hex + "\t" + text);
                return;
            } catch (RuntimeException | InvocationTargetException e) { // a null or a field that this version cannot have
            }
        }
        throw new IllegalStateException(type + " version " + version + " was never written");
    }

    /** The more attempts, the fewer fields are other than their defaults. */
    static Object filled(Class<?> type, int attempt) throws Exception {
        Object made = type.getConstructor().newInstance();
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("_")) continue;
            if (field.getName().equals("next") || field.getName().equals("prev")) continue; // of a collection's element
            field.setAccessible(true);
            if (field.getName().equals("port")) field.set(made, random.nextInt(1 << 16));
            else if (random.nextInt(attempt / 20 + 4) < 3) field.set(made, value(field.getType(), field.getGenericType(), attempt));
        }
        return made;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Class<?> type, Type generic, int attempt) throws Exception {
        if (type == int.class || type == Integer.class) return random.nextInt();
        if (type == short.class || type == Short.class) return (short) random.nextInt();
        if (type == byte.class || type == Byte.class) return (byte) random.nextInt();
        if (type == long.class) return random.nextLong();
        if (type == boolean.class) return random.nextBoolean();
        if (type == double.class) return random.nextDouble();
        if (random.nextInt(6) == 0) return null;
        if (type == String.class) return "t\u00e9xt-" + random.nextInt(100);
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        if (type == byte[].class) return ("bytes-" + random.nextInt(100)).getBytes();
        if (Collection.class.isAssignableFrom(type) && !List.class.isAssignableFrom(type)) {
            Collection found = (Collection) type.getConstructor().newInstance();
            Class<?> element = (Class<?>) ((ParameterizedType) type.getGenericSuperclass()).getActualTypeArguments()[0];
            for (int n = random.nextInt(3); n > 0; n--) found.add(filled(element, attempt));
            return found;
        }
        if (List.class.isAssignableFrom(type)) {
            List found = new ArrayList();
            Class<?> element = (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
            for (int n = random.nextInt(4); n > 0; n--) {
                Object each = value(element, element, attempt);
                if (each != null) found.add(each);
            }
            return found;
        }
        return filled(type, attempt);
    }
}
